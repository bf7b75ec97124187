"""Attacks by names and addresses that people type, and by whoever stands before the mail server."""

import asyncio
import email
import ssl
from dataclasses import replace
from email import policy
from email.headerregistry import Address

import aiosmtplib.email
import pytest
import trustme

from dashboard.mail import mailer as mail
from dashboard.mail.mailer import Mailer, MailError, make_message
from dashboard.mail.texts import budget_mail, invitation_mail
from runtime.email_addresses import parse_email
from runtime.errors import InvalidInputError
from runtime.safe_text import header_line
from runtime.settings import Settings
from store.control.budget_alerts import Alert
from tests.dashboard.mail.test_texts import make_invitation

ANN = "ann@example.org"
SENDER = Address("Taximeter", "meter", "example.org")
LINK = "https://meter.example/sign-in/link?token=t"
HEADERS = {
    *("from", "to", "subject", "date", "message-id", "auto-submitted"),
    *("content-type", "content-transfer-encoding", "mime-version"),
}  # fmt: skip

NAMES = [
    *("A\r\nBcc: eve@evil.example", "A\nBcc: eve@evil.example", "A\rBcc: eve@evil.example"),
    *("A\r\n\r\nhttps://evil.example/", "A\r\n.\r\nMAIL FROM:<eve@evil.example>", "A\0B"),
    *("A\u2028Bcc: eve@evil.example", "A\u2029B", "A\x85B", "A\x0bB", "A\x0cB", "A\x1c\x1d\x1eB"),
    # Decoded while the header is made: Python before 3.12.5 writes what comes out as it is.
    *("=?utf-8?q?=0D=0ABcc=3A_eve=40evil.example?=", "=?utf-8?q?=0a=0aevil?=", "=?utf-7?q?+AA0ACg-?="),
    *("=?utf-8?b?DQpCY2M6IGV2ZUBldmlsLmV4YW1wbGUNCg0KYm9keQ==?=", "=?x?q?=0d=0a?=", "==?utf-8?q?=0a?="),
    *("=\u200b?utf-8?q?=0a?=", "=?utf-8?q?=E2=80=AEspoof?=", "=?=?utf-8?q?=0a?=", "=\r\n?utf-8?q?=0a?="),
    *("\u202egro.elpmaxe", "\u2066x\u2069", "\u200b\u200c\u200d\ufeff", "\ud800", "\U000e0041"),
    *('"Ann" <ann@example.org>', "Taximeter <meter@example.org>", "<script>", "%0d%0aBcc: x", "\x1b[2J"),
    *("{{ 7 * 7 }}", "{% include 'x' %}", "é" * 200, "x" * 200, "x " * 100, "\u0301" * 200, "💡" * 200),
]  # fmt: skip

ALERT = Alert(
    id="a",
    organization_id="o",
    proxy_endpoint_id="e",
    slug="ci",
    period="day",
    starts_at="2026-11-22T00:00:00Z",
    resets_at="2026-11-23T00:00:00Z",
    limit_usd=1.0,
    spent_usd=1.0,
    percent=100,
    action="refuse",
    created_at="2026-11-22T00:00:00.000Z",
)

# Texts that are no address. Some would be another's after a mail server or this program has read them.
NO_ADDRESSES = [
    *("ann@example.org\r\nBcc: eve@evil.example", "ann@example.org\nRCPT TO:<eve@evil.example>"),
    *("ann@example.org>\r\nRCPT TO:<eve@evil.example", "ann@example.org> SIZE=1", "ann@example.org\0"),
    *("ann@example.org,eve@evil.example", "ann@example.org;eve@evil.example", "a b@example.org"),
    *("Ann <ann@example.org>", "<ann@example.org>", "ann@example.org (eve@evil.example)"),
    *("'ann'@example.org", "'ann@example.org", "ann'@example.org", "ann@exam'ple.org"),
    *('"ann"@example.org', '"a\\"b"@example.org', '"ann@evil.example"@example.org', "a\\@b@example.org"),
    *("ann@evil.example@example.org", "@evil.example:ann@example.org", "group:ann@example.org;"),
    *("=?utf-8?q?eve=40evil.example?=@example.org", "=?utf-8?q?=0d=0a?=@example.org", "a@=?utf-8?q?b?="),
    *("$(x)@example.org", "ann@[127.0.0.1]", "ann@[IPv6:::1]", "ann@", "@example.org", "@", "", " ", "ann", "ann@.", "ann@a..b"),
    *("ann@example.org.", "ann@.example.org", "ann@" + "a" * 64 + ".é.example", "a" * 255 + "@b.example"),
    *("ann\u200b@example.org", "ann\u202e@example.org", "ann\u2028@example.org", "ann@exa\u00admple.org"),
    *("ann\uff20example.org", "\uff41nn@example.org", "ann@example\u3002org", "ann@\u2100.example"),
    *("ann@stra\u00dfe.example", "mi\u212ae@example.org", "\u017fam@example.org", "ann@\ud800.example"),
]  # fmt: skip
ADDRESSES = [
    *(ANN, "a+b=c@example.org", "a..b@example.org", ".ann@example.org", "ann.@example.org", "-x@example.org"),
    *("a%evil.example@example.org", "evil.example!ann@example.org", "a|b@example.org"),
    *("a?=b@example.org", "=a?q?b?=@example.org", "ann@127.0.0.1", "ann@localhost", "a`x`@example.org"),
    *("o'neil@example.org", "d'arc-o'neil@example.org"),
    *("jürgen@example.org", "\u0430nn@example.org", "ann@bücher.example", "ann@xn--bcher-kva.example"),
    *("{{x}}@example.org", "é" * 60 + "@example.org", "a" * 64 + "@" + "b" * 60 + ".example"),
]  # fmt: skip


def parse(message):
    """Return what a mail server gets: the recipients of the envelope, and the mail as it is read."""
    recipients = aiosmtplib.email.extract_recipients(message)
    is_wide = not all(each.isascii() for each in recipients)
    wire = aiosmtplib.email.flatten_message(message, utf8=is_wide)
    assert wire.count(b"\r") == wire.count(b"\n") == wire.count(b"\r\n")
    assert max(map(len, wire.split(b"\r\n"))) < 999
    read = email.message_from_bytes(wire, policy=policy.default)
    assert {name.lower() for name in read.keys()} == HEADERS  # noqa: SIM118 - one for each header
    assert len(read.keys()) == len(HEADERS)
    return recipients, read


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("kind", ["invitation", "budget"])
def test_a_name_in_a_subject_is_one_line_of_visible_text(name, kind):
    if kind == "invitation":
        subject, text = invitation_mail(make_invitation(name), LINK)
    else:
        subject, text = budget_mail(replace(ALERT, slug=name), LINK)
    subject = header_line(subject)[: mail.MAX_SUBJECT_LENGTH]
    recipients, read = parse(make_message(SENDER, ANN, subject, text))
    assert recipients == [ANN]
    assert read["subject"].isprintable(), ascii(read["subject"])
    assert read["subject"].split() == subject.split(), "it is read as it was written"
    assert [line for line in text.splitlines() if "://" in line and line[:8] != name[:8]][
        -1
    ] == LINK
    assert [line for line in text.splitlines() if line.startswith("http")] == [LINK]


@pytest.mark.parametrize("text", NO_ADDRESSES, ids=ascii)
def test_what_is_no_address_is_neither_stored_nor_sent_to(text):
    with pytest.raises(InvalidInputError, match="not a valid e-mail address"):
        parse_email(text)
    with pytest.raises(MailError):
        make_message(SENDER, text, "Sign in", "Hello\n")


@pytest.mark.parametrize("address", ADDRESSES, ids=ascii)
def test_a_mail_goes_to_the_one_address_that_is_stored(address):
    stored = parse_email(address)
    assert parse_email(stored) == stored
    recipients, read = parse(make_message(SENDER, stored, "Sign in", "Hello\n"))
    (recipient,) = recipients
    assert parse_email(recipient) == stored
    assert len(read["to"].addresses) == 1


# -- the way to the mail server ---------------------------------------------------------------------

TRUST = trustme.CA()
READY = b"220 mail.example ESMTP\r\n"
PLAIN = b"250-mail.example\r\n250 AUTH PLAIN LOGIN\r\n"
WITH_TLS = b"250-mail.example\r\n250-AUTH PLAIN LOGIN\r\n250 STARTTLS\r\n"
# What stands before the server says, for each line that it gets; None: it closes the connection.
PEERS: dict[str, list[bytes | None]] = {
    "leaves STARTTLS out": [READY, PLAIN, b"502 no\r\n", b"221 bye\r\n"],
    "refuses STARTTLS": [READY, WITH_TLS, b"454 not now\r\n", b"221 bye\r\n"],
    "says that TLS is there and goes on in clear": [READY, WITH_TLS, b"220 go\r\n235 fine\r\n250 OK\r\n"],
    "says what comes after TLS before it": [READY, WITH_TLS, b"220 go\r\n" + PLAIN + b"235 ok\r\n"],
    "greets without end": [b"220-hello\r\n" * 100_000],
    "greets with one endless line": [b"220 " + b"x" * 1_000_000],
    "lists extensions without end": [READY, b"250-X\r\n" * 100_000],
    "speaks HTTP": [b"HTTP/1.1 400 Bad Request\r\n\r\n", None],
    "is no SMTP": [b"\xff\x00\r\n", None],
    "closes at once": [None],
    "asks for the password before TLS": [READY, PLAIN, b"334 VXNlcm5hbWU6\r\n", b"334 UGFz\r\n"],
}  # fmt: skip


@pytest.mark.parametrize("peer", PEERS)
def test_a_password_never_goes_out_in_clear(peer, monkeypatch):
    monkeypatch.setattr(mail, "STEP_TIMEOUT_S", 0.5)
    heard = bytearray()

    async def respond(reader, writer):
        for said in PEERS[peer]:
            if said is None:
                break
            writer.write(said)
            if said.startswith((READY, b"25", b"22", b"33", b"45", b"50")):
                heard.extend(await reader.read(65536))
        heard.extend(await reader.read(65536))
        writer.close()

    async def attack():
        server = await asyncio.start_server(respond, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        url = f"smtp://meter:the-password@0.0.0.0:{port}"  # here, but not by a loopback name
        settings = Settings.from_env(
            {
                "TAXIMETER_BASE_URL": "https://meter.example",
                "TAXIMETER_SMTP_URL": url,
                "TAXIMETER_MAIL_FROM": "meter@example.org",
            }
        )
        trust = ssl.create_default_context()
        TRUST.configure_trust(trust)
        async with server:
            with pytest.raises(MailError) as raised:
                await Mailer(settings, trust=trust).send(ANN, "Sign in", f"{LINK}\n")
        return str(raised.value)

    said = asyncio.run(attack())
    assert "the-password" not in said
    for secret in (
        b"the-password",
        b"dGhlLXBhc3N3b3Jk",
        b"bWV0ZXI",
        b"AUTH",
        b"MAIL FROM",
        b"token",
    ):
        assert secret not in bytes(heard)
