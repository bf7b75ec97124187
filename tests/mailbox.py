"""A real mail server on loopback that keeps what it is given.

    with Mailbox() as mailbox:
        ...  # something sends mail to mailbox.port
        message = mailbox.wait_for("ann@example.org")
        assert "https://" in text_of(message)

`Mailbox.with_starttls` and `Mailbox.with_tls` have a certificate from an authority that the test
trusts, and take no mail without a user's name and password.
"""

import asyncio
import email
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email import policy
from email.message import EmailMessage
from typing import Any, Self

import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.upstream import PATIENCE_S

USER = "taximeter"
PASSWORD = "the mail server's password"
_TAKEN = "250 Message accepted for delivery"
_LINK = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class Delivery:
    """A mail and how it came."""

    sender: str
    recipients: tuple[str, ...]
    message: EmailMessage
    is_encrypted: bool
    user: str | None


class Mailbox:
    """`refused` are the recipients whom the server does not know; `broken` makes it give up on every
    mail; with `silent` it takes connections and says nothing."""

    def __init__(
        self,
        *,
        refused: frozenset[str] = frozenset(),
        broken: bool = False,
        silent: bool = False,
        needs_login: bool = False,
        implicit_tls: ssl.SSLContext | None = None,
        **options: Any,
    ) -> None:
        self.deliveries: list[Delivery] = []
        self._refused = refused
        self._broken = broken
        self._needs_login = needs_login
        self._arrival = threading.Condition()
        kind = _SilentController if silent else _Controller
        self._controller = kind(
            self,
            hostname="127.0.0.1",
            port=0,
            ssl_context=implicit_tls,
            ready_timeout=PATIENCE_S,  # it gives up after five seconds by itself
            **options,
        )

    @classmethod
    def with_starttls(cls, authority: trustme.CA, **options: Any) -> Self:
        """Plain until STARTTLS, which is required, and so is AUTH after it."""
        return cls(
            needs_login=True,
            tls_context=_server_context(authority),
            require_starttls=True,
            authenticator=_authenticate,
            **options,
        )

    @classmethod
    def with_tls(cls, authority: trustme.CA, **options: Any) -> Self:
        """TLS from the first byte (smtps), and AUTH required."""
        # aiosmtpd takes TLS it did not begin itself for none when it decides whether to offer AUTH.
        return cls(
            needs_login=True,
            implicit_tls=_server_context(authority),
            auth_require_tls=False,
            authenticator=_authenticate,
            **options,
        )

    @property
    def port(self) -> int:
        return self._controller.port

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._controller.stop()

    @contextmanager
    def taking_nothing(self) -> Iterator[None]:
        """Give up on every mail for a while."""
        self._broken = True
        try:
            yield
        finally:
            self._broken = False

    # --- what came ---

    def wait_for(self, recipient: str, count: int = 1) -> EmailMessage:
        """The last mail to this address, when there have been so many."""
        return self.wait_for_delivery(recipient, count).message

    def wait_for_delivery(self, recipient: str, count: int = 1) -> Delivery:
        with self._arrival:
            came = self._arrival.wait_for(lambda: len(self.to(recipient)) >= count, PATIENCE_S)
            found = self.to(recipient)
        if not came:
            raise TimeoutError(
                f"{len(found)} mails to {recipient}, not {count};"
                f" there is mail to {sorted({r for d in self.deliveries for r in d.recipients})}"
            )
        return found[-1]

    def to(self, recipient: str) -> list[Delivery]:
        """All that has come to this address so far."""
        return [delivery for delivery in self.deliveries if recipient in delivery.recipients]

    # --- what aiosmtpd asks ---

    async def handle_MAIL(
        self, _server: SMTP, session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if self._needs_login and not session.authenticated:
            return "530 5.7.0 Authentication required"
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(
        self,
        _server: SMTP,
        _session: Session,
        envelope: Envelope,
        address: str,
        _options: list[str],
    ) -> str:
        if address in self._refused:
            return "550 5.1.1 No such mailbox here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self._broken:
            return "451 4.3.0 The disk is full"
        content = envelope.content
        assert isinstance(content, bytes)
        delivery = Delivery(
            sender=envelope.mail_from or "",
            recipients=tuple(envelope.rcpt_tos),
            message=email.message_from_bytes(content, policy=policy.default),
            is_encrypted=_is_encrypted(server.transport),
            user=_user_of(session.auth_data),
        )
        with self._arrival:
            self.deliveries.append(delivery)
            self._arrival.notify_all()
        return _TAKEN


def text_of(message: EmailMessage) -> str:
    """The words a person reads, decoded: long lines come with `=3D` for every `=`."""
    part = message.get_body(("plain",))
    assert part is not None, "a mail without plain text"
    text: str = part.get_content()
    return text


def html_of(message: EmailMessage) -> str | None:
    part = message.get_body(("html",))
    return None if part is None else part.get_content()


def link_in(message: EmailMessage) -> str:
    """The only link in the text."""
    links = _LINK.findall(text_of(message))
    assert len(links) == 1, links
    return str(links[0])


class _Controller(Controller):
    """The kernel chooses the port, which aiosmtpd has to be told before it tries itself."""

    def _trigger_server(self) -> None:
        assert isinstance(self.server, asyncio.Server)
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


class _SilentController(_Controller):
    def factory(self) -> Any:
        return _Silence()

    def _trigger_server(self) -> None:
        assert isinstance(self.server, asyncio.Server)
        self.port = self.server.sockets[0].getsockname()[1]
        self._factory_invoker()  # nobody greets, so there is nothing to wait for


class _Silence(asyncio.Protocol):
    """Reads and never answers."""


def _user_of(login: object) -> str | None:
    return login.login.decode() if isinstance(login, LoginPassword) else None


def _is_encrypted(transport: asyncio.BaseTransport | None) -> bool:
    return transport is not None and transport.get_extra_info("sslcontext") is not None


def _server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


def _authenticate(
    _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: object
) -> AuthResult:
    assert isinstance(data, LoginPassword)
    is_right = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=is_right, handled=False, auth_data=data)
