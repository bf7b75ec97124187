"""Signing in at the running service: who is told its secrets, and where links go."""

from urllib.parse import quote, urlencode

import psutil

from tests.live.conftest import SECRET_OF_PROVIDER
from tests.live.service import Service
from tests.mailbox import PASSWORD, Mailbox, link_in
from tests.rawclient import request
from tests.upstream import Upstream

ANN = "ann@example.org"
SECRETS = (SECRET_OF_PROVIDER, quote(PASSWORD))


def ask_for_link(service: Service) -> int:
    base_url = f"http://{service.host}"
    headers = [
        ("Host", service.host),
        ("Origin", base_url),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ]
    body = urlencode({"email": ANN}).encode()
    return service.send(request("POST", "/sign-in", headers, body)).status


def test_a_link_comes_by_mail_and_only_the_web_process_knows_the_secrets(
    customised_service: tuple[Service, Upstream], mailbox: Mailbox
) -> None:
    service, _ = customised_service
    assert ask_for_link(service) == 200
    link = link_in(mailbox.wait_for(ANN))
    assert link.startswith(f"http://{service.host}/sign-in/link?token=")
    knows = {
        name: {secret in str(psutil.Process(pid).environ()) for secret in SECRETS}
        for name, pid in service.pids().items()
    }
    assert knows.pop("web") == {True}
    assert set(map(frozenset, knows.values())) == {frozenset({False})}


def test_a_mail_that_is_not_taken_is_said_without_what_is_secret(
    customised_service: tuple[Service, Upstream], mailbox: Mailbox
) -> None:
    service, _ = customised_service
    with mailbox.taking_nothing():
        assert ask_for_link(service) == 200
        service.wait_until(lambda: "was not sent" in service.output, "a line about it")
    assert "token" not in service.output.partition("was not sent")[2]
    assert "/sign-in/link?token=" not in service.output, "not at the first start either"
    for secret in (*SECRETS, PASSWORD):
        assert secret not in service.output
