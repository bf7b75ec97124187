"""Sending mail with links through the operator's mail server, or printing the links on the terminal.

Links are printed only if the service listens on loopback alone. A mail is plain text. Errors contain
neither credentials nor the link.
"""

import asyncio
import ssl
from collections.abc import Callable
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime, make_msgid
from urllib.parse import urlsplit

import aiosmtplib

from runtime import clock
from runtime.email_addresses import parse_email
from runtime.errors import InvalidInputError
from runtime.safe_text import header_line
from runtime.settings import MailServer, Settings

STEP_TIMEOUT_S = 15.0
TIMEOUT_S = 60.0  # for the whole of it: a server may respond to every step just in time
MAX_SUBJECT_LENGTH = 150


class MailError(Exception):
    """Raised if a mail was not sent. Its message is the reason and may be logged."""


class Mailer:
    """Sends mail. ``print_line`` prints a line on the terminal. ``trust`` replaces the certificate
    authorities for the mail server."""

    def __init__(
        self,
        settings: Settings,
        print_line: Callable[[str], None] = print,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._server = settings.smtp_url
        self._sender = settings.mail_from
        self._base_url = settings.base_url
        self._is_local = settings.is_local
        self._prints = settings.prints_links
        # How we greet. aiosmtplib would look for the name of this machine, which may take long.
        self._name = "localhost" if settings.is_local else urlsplit(settings.base_url).hostname
        self._print_line = print_line
        # Once: reading the certificates of the authorities takes tens of milliseconds.
        self._tls = None if self._server is None else trust or _make_tls(self._server)

    @property
    def can_send(self) -> bool:
        """Return whether links can be delivered, by a mail server or on the terminal."""
        return self._server is not None or self._is_local

    @property
    def prints(self) -> bool:
        """Return whether links are printed on the terminal, because no mail server is set."""
        return self._prints

    async def send(self, to: str, subject: str, text: str) -> None:
        """Send a mail, or print its subject and the lines of its text that are links. Raises MailError."""
        subject = header_line(subject)[:MAX_SUBJECT_LENGTH]
        if self._server is not None and self._sender is not None:
            await self._post(self._server, make_message(self._sender, to, subject, text))
        elif self._is_local:
            links = [line for line in text.splitlines() if line.startswith(self._base_url)]
            self._print_line("\n".join(["", f"{subject} ({header_line(to)}):", *links, ""]))
        else:
            raise MailError("no mail server is set (TAXIMETER_SMTP_URL)")

    async def _post(self, server: MailServer, message: EmailMessage) -> None:
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            use_tls=server.is_tls,
            start_tls=_needs_start_tls(server),
            tls_context=self._tls,
            timeout=STEP_TIMEOUT_S,
            local_hostname=self._name,
        )
        try:
            async with asyncio.timeout(TIMEOUT_S), client:
                if server.user is not None and server.password is not None:
                    await client.login(server.user, server.password)
                await client.send_message(message)
        # UnicodeError and ValueError: an address that the server, or the protocol, cannot take.
        except (aiosmtplib.SMTPException, OSError, TimeoutError, ValueError) as error:
            # Not `from error`: what a server says may quote the mail, and a log shows the cause.
            raise MailError(f"{server} did not take the mail: {_explain(error)}") from None


def _make_tls(server: MailServer) -> ssl.SSLContext:
    if not server.is_loopback:
        return ssl.create_default_context()
    # Nobody stands between, and a mail server at home has a certificate of its own making.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def make_message(sender: Address, to: str, subject: str, text: str) -> EmailMessage:
    """Return a mail as a message. Raises MailError if no mail can be sent to the address ``to``."""
    message = EmailMessage(policy=SMTP_POLICY)
    try:
        message["From"] = sender
        message["To"] = _recipient(to)
        message["Subject"] = subject
    except (InvalidInputError, MessageError, ValueError, IndexError) as error:
        raise MailError("no mail can be sent to this address") from error
    message["Date"] = format_datetime(clock.now())
    message["Message-ID"] = make_msgid(domain=sender.domain)
    message["Auto-Submitted"] = "auto-generated"
    # Quoted-printable breaks long lines, which mail programs mend and people who look at the source
    # of a mail do not.
    message.set_content(text, cte="7bit" if text.isascii() else "quoted-printable")
    return message


def _recipient(to: str) -> Address:
    name, _, domain = parse_email(to).rpartition("@")
    return Address(username=name, domain=domain.encode("idna").decode())


def _needs_start_tls(server: MailServer) -> bool | None:
    """Return whether STARTTLS is required; with None it is used if the server offers it.

    An attacker on the network can remove the offer, so it is required if credentials are sent to a
    server that is not on loopback."""
    if server.is_tls:
        return False
    return True if server.user is not None and not server.is_loopback else None


def _explain(error: Exception) -> str:
    """Return the reason of an error without the server's own text, which may quote the mail with its link."""
    match error:
        case aiosmtplib.SMTPAuthenticationError():
            return f"it refused the user or the password ({error.code})"
        case aiosmtplib.SMTPRecipientsRefused():
            codes = ", ".join(str(refused.code) for refused in error.recipients)
            return f"it refused the recipient ({codes})"
        case aiosmtplib.SMTPResponseException():
            return f"it responded with {error.code}"
        case aiosmtplib.SMTPNotSupported() | ssl.SSLError():
            return str(error)
        case TimeoutError():
            return "it did not respond in time"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case aiosmtplib.SMTPException():
            return error.message
        case _:
            return "the address cannot be written in a mail"
