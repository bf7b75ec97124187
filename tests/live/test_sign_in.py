"""Signing in at the running service: who is told its secrets, and where links go."""

import re
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote, urlencode

import psutil
import trustme

from tests.live.service import Service
from tests.mailbox import PASSWORD, USER, Mailbox, link_in
from tests.rawclient import request

ANN = "ann@example.org"
SECRET = "the-secret-at-a-provider"
QUOTED = quote(PASSWORD)
NO_UPSTREAM = "http://127.0.0.1:9"


def ask_for_link(service: Service) -> int:
    base_url = f"http://{service.host}"
    headers = [
        ("Host", service.host),
        ("Origin", base_url),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ]
    body = urlencode({"email": ANN}).encode()
    return service.send(request("POST", "/sign-in", headers, body)).status


def test_a_link_comes_by_mail_and_only_the_web_process_knows_the_secrets(tmp_path: Path) -> None:
    with ExitStack() as delivering:
        mailbox = delivering.enter_context(Mailbox.with_starttls(trustme.CA()))
        settings = {
            "SMTP_URL": f"smtp://{USER}:{QUOTED}@127.0.0.1:{mailbox.port}",
            "MAIL_FROM": "meter@example.org",
            "GITHUB_CLIENT_ID": "id",
            "GITHUB_CLIENT_SECRET": SECRET,
        }
        with Service(tmp_path, NO_UPSTREAM, **settings) as service:
            assert ask_for_link(service) == 200
            link = link_in(mailbox.wait_for(ANN))
            assert link.startswith(f"http://{service.host}/sign-in/link?token=")
            knows = {
                name: {secret in str(psutil.Process(pid).environ()) for secret in (SECRET, QUOTED)}
                for name, pid in service.pids().items()
            }
            assert knows.pop("web") == {True}
            assert set(map(frozenset, knows.values())) == {frozenset({False})}

            delivering.close()  # from now on no mail is taken
            assert ask_for_link(service) == 200
            service.wait_until(lambda: "was not sent" in service.output, "a line about it")
            service.terminate()
            assert "token" not in service.output.partition("was not sent")[2]
            assert "/sign-in/link?token=" not in service.output, "not at the first start either"
            for secret in (SECRET, PASSWORD, QUOTED):
                assert secret not in service.output


def test_without_a_mail_server_the_link_is_printed(shared_service: Service) -> None:
    service = shared_service
    assert "this link signs you in once" in service.output
    assert ask_for_link(service) == 200
    service.wait_until(lambda: f"({ANN})" in service.output, "the link")
    after = service.output.partition(f"({ANN})")[2]
    assert re.search(rf"http://{re.escape(service.host)}/sign-in/link\?token=\S{{43}}", after)
