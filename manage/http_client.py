"""Shared parts of HTTP clients: trust store, credential, and error texts that are safe to print."""

import os
import ssl
from collections.abc import Mapping
from functools import cache

import httpx
from pydantic import ValidationError

from runtime.safe_text import terminal_line

# What clients of upstream read their credential from.
KEY_VARIABLE, TOKEN_VARIABLE = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"
MAX_MESSAGE_CHARS = 300
_TRUST_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def load_trust_store() -> ssl.SSLContext:
    """Return the trust store of SSL_CERT_FILE or SSL_CERT_DIR, or else that of httpx.

    Raises OSError, with the name of the file or directory that cannot be read."""
    return _load_trust_store(*map(os.environ.get, _TRUST_VARIABLES))


@cache  # reading it takes longer than all else in making a client
def _load_trust_store(*paths: str | None) -> ssl.SSLContext:
    try:
        return httpx.create_ssl_context()
    except OSError as error:  # it names no file
        reason = (
            f"certificate authorities cannot be read ({error.strerror or error}); check"
            f" {' and '.join(_TRUST_VARIABLES)}"
        )
        raise OSError(error.errno, reason, next(filter(None, paths), None)) from error


def make_credential_headers(environ: Mapping[str, str]) -> dict[str, str] | None:
    """Return the header with the upstream credential in ``environ``, None if it has none."""
    if key := environ.get(KEY_VARIABLE, "").strip():
        return {"x-api-key": key}
    if token := environ.get(TOKEN_VARIABLE, "").strip():
        return {"authorization": f"Bearer {token}"}
    return None


def find_tls_error(error: BaseException) -> ssl.SSLError | None:
    """Return the TLS error that caused ``error``, or None. A retry does not mend such an error."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    return cause


def explain_connection_error(error: Exception, advice: str) -> str:
    """Return the cause of a connection error as the end of a sentence that begins with the address.

    ``advice`` is added if the address cannot be reached."""
    tls_error = find_tls_error(error)
    if isinstance(tls_error, ssl.SSLCertVerificationError):
        return (
            f"has a certificate that is not trusted: {tls_error.verify_message}; point SSL_CERT_FILE"
            " at the certificate authority's file if it is yours"
        )
    if tls_error is not None:
        return "failed the TLS handshake; check http:// or https:// in the address"
    if isinstance(error, httpx.TimeoutException):
        return "does not respond in time; check the network, and try again"
    if isinstance(error, httpx.ConnectError):
        return f"cannot be reached: {shorten(str(error))}; {advice}"
    return f"closed the connection: {shorten(str(error)) or type(error).__name__}"


def describe_fault(error: ValidationError) -> str:
    """Return the first error of a validation with its place: ``items.0.id: Field required``."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return shorten(f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}")


def shorten(text: str) -> str:
    """Return the first ``MAX_MESSAGE_CHARS`` of ``text`` as one line that is safe to print."""
    return terminal_line(text)[:MAX_MESSAGE_CHARS] if text else ""
