"""Mail through real servers, and links on the terminal."""

import asyncio
import logging
import ssl
from email.utils import parsedate_to_datetime

import pytest
import trustme

from dashboard.mail import mailer as mail
from dashboard.mail.mailer import Mailer, MailError
from runtime.clock import now
from runtime.settings import Settings
from tests.mailbox import PASSWORD, USER, Mailbox, link_in, text_of
from tests.upstream import PATIENCE_S, kept_port

ANN = "ann@example.org"
BASE_URL = "https://meter.example"
LINK = f"{BASE_URL}/sign-in/link?token={'a_long-token' * 4}"
TEXT = f"Sign in:\n\n{LINK}\n"
LOGIN = f"{USER}:{PASSWORD.replace(' ', '%20')}@"


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def trusting(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def read(**variables):
    named = {f"TAXIMETER_{name.upper()}": text for name, text in variables.items()}
    return Settings.from_env({"TAXIMETER_BASE_URL": BASE_URL} | named)


def make_mailer(url, trust=None):
    return Mailer(read(smtp_url=url, mail_from="Taximeter <meter@example.org>"), trust=trust)


async def until_closed():
    """TLS says goodbye after the mail is sent, and a loop that ends before would leave the socket."""
    transports = asyncio.get_running_loop()._transports  # type: ignore[attr-defined]
    async with asyncio.timeout(PATIENCE_S):
        while any(transport._sock is not None for transport in transports.values()):
            await asyncio.sleep(0.001)


def send(url, to=ANN, subject="Sign in", text=TEXT, trust=None):
    async def send_and_close():
        try:
            await make_mailer(url, trust).send(to, subject, text)
        finally:
            await until_closed()

    # In a loop of its own: a mailbox that closes waits for whoever is still connected.
    asyncio.run(send_and_close())


def test_a_mail_says_who_wrote_it_when_and_that_a_program_did():
    with Mailbox() as mailbox:
        send(f"smtp://127.0.0.1:{mailbox.port}")
        delivery = mailbox.wait_for_delivery(ANN)
    message = delivery.message
    assert (delivery.sender, delivery.recipients) == ("meter@example.org", (ANN,))
    assert message["from"] == "Taximeter <meter@example.org>"
    assert (message["to"], message["subject"]) == (ANN, "Sign in")
    assert parsedate_to_datetime(message["date"]) == now()
    assert message["message-id"].endswith("@example.org>")
    assert message["auto-submitted"] == "auto-generated"
    assert message.get_content_type() == "text/plain"
    assert link_in(message) == LINK


def test_the_link_stands_whole_also_in_the_source_of_a_mail():
    with Mailbox() as mailbox:
        send(f"smtp://127.0.0.1:{mailbox.port}")
        assert LINK.encode() in mailbox.wait_for(ANN).as_bytes()


def test_any_script_arrives():
    with Mailbox() as mailbox:
        send(f"smtp://localhost:{mailbox.port}", subject="Éh 東京", text=f"Zoë 東京\n\n{TEXT}")
        message = mailbox.wait_for(ANN)
    assert message["subject"] == "Éh 東京"
    assert text_of(message).startswith("Zoë 東京\r\n")
    assert link_in(message) == LINK


def test_a_domain_in_any_script_is_written_as_servers_know_it():
    with Mailbox() as mailbox:
        send(f"smtp://127.0.0.1:{mailbox.port}", to="ann@bücher.example")
        assert mailbox.wait_for("ann@xn--bcher-kva.example")


@pytest.mark.parametrize("kind", ["smtp", "smtps"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_credentials_go_over_tls(kind, host, authority, trusting):
    make = Mailbox.with_tls if kind == "smtps" else Mailbox.with_starttls
    with make(authority) as mailbox:
        send(f"{kind}://{LOGIN}{host}:{mailbox.port}", trust=trusting)
        delivery = mailbox.wait_for_delivery(ANN)
    assert (delivery.user, delivery.is_encrypted) == (USER, True)


@pytest.mark.parametrize("kind", ["smtp", "smtps"])
def test_a_server_at_home_may_have_a_certificate_of_its_own(kind, authority):
    make = Mailbox.with_tls if kind == "smtps" else Mailbox.with_starttls
    with make(authority) as mailbox:
        send(f"{kind}://{LOGIN}127.0.0.1:{mailbox.port}")
        assert mailbox.wait_for_delivery(ANN).is_encrypted


@pytest.mark.parametrize("kind", ["smtp", "smtps"])
@pytest.mark.parametrize("login", ["", LOGIN])
def test_elsewhere_the_certificate_must_be_good(kind, login, authority):
    make = Mailbox.with_tls if kind == "smtps" else Mailbox.with_starttls
    with make(authority) as mailbox:
        with pytest.raises(MailError, match="certificate"):
            send(f"{kind}://{login}{ELSEWHERE}:{mailbox.port}")
        assert not mailbox.deliveries


# Leads to this machine, without being one of the names that say so.
ELSEWHERE = "0.0.0.0"  # noqa: S104 - nobody binds to it


def test_a_certificate_is_good_for_its_own_name_only(authority, trusting):
    with Mailbox.with_tls(authority) as mailbox:
        with pytest.raises(MailError, match="certificate"):
            send(f"smtps://{LOGIN}{ELSEWHERE}:{mailbox.port}", trust=trusting)
        assert not mailbox.deliveries


def test_elsewhere_a_server_without_tls_takes_mail_without_credentials():
    with Mailbox() as mailbox:
        send(f"smtp://{ELSEWHERE}:{mailbox.port}")
        assert mailbox.wait_for(ANN)


def _fail(url, **changes):
    with pytest.raises(MailError) as error:
        send(url, **changes)
    said = str(error.value)
    assert "token" not in said
    assert PASSWORD not in said
    assert USER + ":" not in said
    return said


def test_a_wrong_password_is_said_without_saying_it(authority, trusting):
    with Mailbox.with_starttls(authority) as mailbox:
        url = f"smtp://{USER}:not-the-password@127.0.0.1:{mailbox.port}"
        said = _fail(url, trust=trusting)
        assert not mailbox.deliveries
    assert said.endswith("it refused the user or the password (535)")
    assert "not-the-password" not in said


def test_a_refused_recipient_is_said_without_the_servers_words():
    with Mailbox(refused=frozenset({ANN})) as mailbox:
        said = _fail(f"smtp://127.0.0.1:{mailbox.port}")
    assert said.endswith("it refused the recipient (550)")


def test_a_server_that_gives_up_is_said():
    with Mailbox(broken=True) as mailbox:
        assert (_fail(f"smtp://127.0.0.1:{mailbox.port}")).endswith("it responded with 451")


def test_a_server_that_is_not_there_is_said():
    with kept_port() as port:
        assert f"smtp://127.0.0.1:{port} did not take" in _fail(f"smtp://127.0.0.1:{port}")


def test_a_server_that_says_nothing_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(mail, "STEP_TIMEOUT_S", 0.05)
    with Mailbox(silent=True) as mailbox:
        said = _fail(f"smtp://127.0.0.1:{mailbox.port}")
    assert said.endswith("it did not respond in time")


def test_a_subject_makes_no_other_header():
    with Mailbox() as mailbox:
        subject = "Join A\r\nBcc: eve@example.org\r\n\r\nB" + "x" * 5000
        send(f"smtp://127.0.0.1:{mailbox.port}", subject=subject)
        delivery = mailbox.wait_for_delivery(ANN)
    assert delivery.recipients == (ANN,)
    assert delivery.message["bcc"] is None
    assert delivery.message["subject"].startswith("Join A  Bcc: eve@example.org    Bxxx")
    assert link_in(delivery.message) == LINK


def test_for_people_at_this_machine_links_are_printed():
    lines: list[str] = []
    base_url = "http://127.0.0.1:8080"
    mailer = Mailer(read(base_url=base_url), lines.append)
    assert mailer.can_send
    assert mailer.prints
    asyncio.run(
        mailer.send(ANN, "Sign in\x1b[2J", f"Hello\n\n{base_url}/sign-in/link?token=t\n\nBye")
    )
    assert lines == [f"\nSign in [2J ({ANN}):\n{base_url}/sign-in/link?token=t\n"]


def test_with_a_mail_server_nothing_is_printed():
    lines: list[str] = []
    with Mailbox() as mailbox:
        settings = read(
            base_url="http://127.0.0.1:8080",
            smtp_url=f"smtp://127.0.0.1:{mailbox.port}",
            mail_from="meter@example.org",
        )
        mailer = Mailer(settings, lines.append)
        asyncio.run(mailer.send(ANN, "Sign in", TEXT))
        assert mailbox.wait_for(ANN)
    assert not mailer.prints
    assert lines == []


@pytest.mark.parametrize(
    "variables",
    [
        {"listen": "0.0.0.0:8080", "base_url": "http://127.0.0.1:8080"},
        {"listen": "127.0.0.1:8080", "base_url": "https://meter.example"},
        {"listen": "127.0.0.1:8080", "base_url": "http://127.evil.example"},
    ],
)
def test_elsewhere_nothing_is_sent_or_printed_without_a_mail_server(variables):
    lines: list[str] = []
    mailer = Mailer(read(**variables), lines.append)
    assert not mailer.can_send
    with pytest.raises(MailError, match="TAXIMETER_SMTP_URL"):
        asyncio.run(mailer.send(ANN, "Sign in", TEXT))
    assert lines == []


def test_no_library_logs_what_is_in_a_mail(caplog, authority, trusting):
    caplog.set_level(logging.DEBUG)
    with Mailbox.with_starttls(authority) as mailbox:
        send(f"smtp://{LOGIN}127.0.0.1:{mailbox.port}", trust=trusting)
        assert mailbox.wait_for(ANN)
    ours = [r.getMessage() for r in caplog.records if not r.name.startswith(("mail.", "aiosmtpd"))]
    assert not [line for line in ours if "token" in line or PASSWORD in line]
