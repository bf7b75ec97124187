"""Signing in at the running service: who is told its secrets, and where links go."""

import re
from pathlib import Path
from urllib.parse import urlencode

import psutil

from tests.live.service import Service
from tests.mailbox import PASSWORD, USER, Mailbox, link_in
from tests.rawclient import request

ANN = "ann@example.org"
SECRET = "the-secret-at-a-provider"
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
    with Mailbox() as mailbox:
        settings = {
            "SMTP_URL": f"smtp://127.0.0.1:{mailbox.port}",
            "MAIL_FROM": "meter@example.org",
            "GITHUB_CLIENT_ID": "id",
            "GITHUB_CLIENT_SECRET": SECRET,
        }
        with Service(tmp_path, NO_UPSTREAM, **settings) as service:
            assert ask_for_link(service) == 200
            link = link_in(mailbox.wait_for(ANN))
            assert link.startswith(f"http://{service.host}/sign-in/link?token=")
            knows = {
                name: SECRET in str(psutil.Process(pid).environ())
                for name, pid in service.pids().items()
            }
            assert {name for name, is_told in knows.items() if is_told} == {"web"}
            service.terminate()
            assert "/sign-in/link?token=" not in service.output, "not at the first start either"
            assert SECRET not in service.output


def test_a_mail_that_is_not_taken_is_said_without_what_is_secret(tmp_path: Path) -> None:
    with Mailbox() as mailbox:
        port = mailbox.port
    settings = {
        "SMTP_URL": f"smtp://{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}",
        "MAIL_FROM": "meter@example.org",
    }
    with Service(tmp_path, NO_UPSTREAM, **settings) as service:
        assert ask_for_link(service) == 200
        service.wait_until(lambda: "was not sent" in service.output, "a line about it")
        after = service.output.partition("was not sent")[2]
    assert "token" not in after
    assert PASSWORD not in after
    assert PASSWORD.replace(" ", "%20") not in after


def test_without_a_mail_server_the_link_is_printed(shared_service: Service) -> None:
    service = shared_service
    assert "this link signs you in once" in service.output
    assert ask_for_link(service) == 200
    service.wait_until(lambda: f"({ANN})" in service.output, "the link")
    after = service.output.partition(f"({ANN})")[2]
    assert re.search(rf"http://{re.escape(service.host)}/sign-in/link\?token=\S{{43}}", after)
