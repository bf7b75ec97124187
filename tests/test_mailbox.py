import smtplib
import ssl
from email.message import EmailMessage

import pytest
import trustme

from tests import mailbox as mailboxes
from tests.mailbox import PASSWORD, USER, Mailbox, html_of, link_in, text_of

ANN = "ann@example.org"
LINK = "https://meter.example/sign-in/link?token=" + "a_long-token" * 8


def mail(to: str = ANN, text: str = f"Sign in here:\n\n{LINK}\n") -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "Taximeter <meter@example.org>", to
    message["Subject"] = "Accès à Taximeter"
    message.set_content(text, cte="quoted-printable")
    return message


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def trusting(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def connect(mailbox: Mailbox) -> smtplib.SMTP:
    return smtplib.SMTP("127.0.0.1", mailbox.port, timeout=60)


def test_a_mail_is_kept_and_read_decoded():
    with Mailbox() as mailbox, connect(mailbox) as client:
        client.send_message(mail())
        message = mailbox.wait_for(ANN)
        assert message["subject"] == "Accès à Taximeter"
        assert "token=3D" in message.as_string(), "what came was encoded"
        assert link_in(message) == LINK
        assert html_of(message) is None
        delivery = mailbox.wait_for_delivery(ANN)
    assert (delivery.sender, delivery.recipients) == ("meter@example.org", (ANN,))
    assert (delivery.is_encrypted, delivery.user) == (False, None)


def test_the_last_of_several_is_waited_for():
    with Mailbox() as mailbox, connect(mailbox) as client:
        for text in ("first", "second"):
            client.send_message(mail(text=text))
        assert text_of(mailbox.wait_for(ANN, 2)).strip() == "second"
        assert mailbox.to("bob@example.org") == []


def test_waiting_in_vain_says_who_has_mail(monkeypatch):
    monkeypatch.setattr(mailboxes, "PATIENCE_S", 0.01)
    with Mailbox() as mailbox, connect(mailbox) as client:
        client.send_message(mail())
        with pytest.raises(TimeoutError, match=r"0 mails to bob.*there is mail to \['ann@"):
            mailbox.wait_for("bob@example.org")


def test_starttls_and_a_password_are_required(authority, trusting):
    with Mailbox.with_starttls(authority) as mailbox, connect(mailbox) as client:
        with pytest.raises(smtplib.SMTPException, match="STARTTLS"):
            client.send_message(mail())
        client.starttls(context=trusting)
        with pytest.raises(smtplib.SMTPException, match="Authentication required"):
            client.send_message(mail())
        with pytest.raises(smtplib.SMTPAuthenticationError):
            client.login(USER, "wrong")
        client.login(USER, PASSWORD)
        client.send_message(mail())
        delivery = mailbox.wait_for_delivery(ANN)
    assert (delivery.is_encrypted, delivery.user) == (True, USER)


def test_tls_from_the_first_byte(authority, trusting):
    with (
        Mailbox.with_tls(authority) as mailbox,
        smtplib.SMTP_SSL("127.0.0.1", mailbox.port, timeout=60, context=trusting) as client,
    ):
        with pytest.raises(smtplib.SMTPException, match="Authentication required"):
            client.send_message(mail())
        client.login(USER, PASSWORD)
        client.send_message(mail())
        delivery = mailbox.wait_for_delivery(ANN)
    assert (delivery.is_encrypted, delivery.user) == (True, USER)


def test_a_certificate_nobody_trusts_ends_the_conversation(authority):
    with Mailbox.with_starttls(authority) as mailbox:
        with connect(mailbox) as client, pytest.raises(ssl.SSLCertVerificationError):
            client.starttls(context=ssl.create_default_context())
        assert mailbox.deliveries == []


def test_an_unknown_recipient_is_refused():
    with Mailbox(refused=frozenset({ANN})) as mailbox, connect(mailbox) as client:
        with pytest.raises(smtplib.SMTPRecipientsRefused):
            client.send_message(mail())
        client.send_message(mail("bob@example.org"))
        mailbox.wait_for("bob@example.org")


def test_a_broken_server_takes_no_mail():
    with Mailbox(broken=True) as mailbox, connect(mailbox) as client:
        with pytest.raises(smtplib.SMTPDataError):
            client.send_message(mail())
        assert mailbox.deliveries == []


def test_a_silent_server_never_greets():
    with (
        Mailbox(silent=True) as mailbox,
        pytest.raises(smtplib.SMTPServerDisconnected, match="timed out"),
    ):
        smtplib.SMTP("127.0.0.1", mailbox.port, timeout=0.2)
