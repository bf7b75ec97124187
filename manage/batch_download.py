"""The download of the results of a message batch with the user's own key, in chunks.

The key goes to the configured upstream and to no other machine: upstream names the results by an
absolute URL, which is refused if its host is another one."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

import httpx

from manage.http_client import (
    KEY_VARIABLE,
    TOKEN_VARIABLE,
    explain_connection_error,
    load_trust_store,
    make_credential_headers,
    shorten,
)
from runtime import clock
from wire.envelope import read_envelope
from wire.json_reading import as_text, parse_object

API_VERSION = "2023-06-01"
CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 10.0, 60.0
MAX_BATCH_BYTES = 1 << 20  # of the object that describes a batch
_ADVICE = "check the network and TAXIMETER_UPSTREAM_URL"


class DownloadError(Exception):
    """The results cannot be downloaded. The message is one line, safe to print, and never quotes a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBatch:
    """A batch that has ended. ``results_url`` is a URL of the upstream."""

    created_at: datetime
    results_url: str


@contextmanager
def open_client(
    vendor: str, environ: Mapping[str, str], *, is_local: bool
) -> Iterator[httpx.Client]:
    """Open an HTTP client that sends the key from the environment and does not follow redirects.

    ``is_local``: use no HTTP proxy. Raises DownloadError without a key, OSError if the trust store
    cannot be read."""
    credential = make_credential_headers(environ)
    if credential is None:
        raise DownloadError(
            f"there is no key to fetch results with: set {KEY_VARIABLE} or {TOKEN_VARIABLE}"
        )
    try:
        client = httpx.Client(
            headers=credential | {f"{vendor}-version": API_VERSION},
            timeout=httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            verify=load_trust_store(),
            trust_env=not is_local,
        )
    except UnicodeEncodeError:
        raise DownloadError(f"{KEY_VARIABLE} or {TOKEN_VARIABLE} has no key") from None
    with client:
        yield client


def fetch_batch(client: httpx.Client, upstream_url: str, batch_id: str) -> MessageBatch:
    """Fetch the state of a batch and return it if it has ended, otherwise raise DownloadError."""
    address = f"{upstream_url}/v1/messages/batches/{quote(batch_id, safe='')}"
    document = parse_object(b"".join(_bound(_stream(client, address), address))) or {}
    if document.get("processing_status") in ("in_progress", "canceling"):
        raise DownloadError(f"{batch_id} has not ended yet; import it when it has")
    results_url, created_at = document.get("results_url"), as_text(document.get("created_at"))
    if document.get("type") != "message_batch" or not created_at:
        raise DownloadError(f"{address} does not respond with a message batch")
    if not isinstance(results_url, str):
        raise DownloadError(
            f"upstream has no results of {batch_id} any more; they stay for 29 days after its creation"
        )
    try:
        instant = clock.parse_instant(created_at)
    except ValueError:
        raise DownloadError(f"{address} does not say when the batch was created") from None
    return MessageBatch(created_at=instant, results_url=find_own_address(upstream_url, results_url))


def iter_results(client: httpx.Client, batch: MessageBatch) -> Iterator[bytes]:
    """Yield the results in chunks. Raises DownloadError, also if the download breaks off early."""
    return _stream(client, batch.results_url)


def find_own_address(upstream_url: str, address: str) -> str:
    """Return ``address``, named by upstream, as a URL of ``upstream_url``. Raises DownloadError otherwise."""
    if address.startswith("/") and not address.startswith("//"):
        return upstream_url + address
    try:
        own, named = httpx.URL(upstream_url), httpx.URL(address)
    except httpx.InvalidURL:
        raise DownloadError("upstream names no address of the results that can be used") from None
    if named.userinfo or (own.scheme, own.host, own.port) != (named.scheme, named.host, named.port):
        raise DownloadError(
            f"upstream has the results at {shorten(named.host)}, where the key is not sent; download them"
            " yourself and import the file"
        )
    return address


def _stream(client: httpx.Client, address: str) -> Iterator[bytes]:
    """Yield the body of a response with status 200. Raises DownloadError."""
    try:
        with client.stream("GET", address) as response:
            if response.status_code != 200:
                raise DownloadError(_explain_refusal(client, response))
            yield from response.iter_bytes()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        host = httpx.URL(address).host
        raise DownloadError(f"{host} {explain_connection_error(error, _ADVICE)}") from error


def _bound(chunks: Iterator[bytes], address: str) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > MAX_BATCH_BYTES:
            raise DownloadError(f"{address} does not respond with a message batch")
        yield chunk


def _explain_refusal(client: httpx.Client, response: httpx.Response) -> str:
    status, host = response.status_code, response.url.host
    if response.is_redirect:
        return (
            f"{host} redirects elsewhere, where the key is not sent; check TAXIMETER_UPSTREAM_URL"
        )
    content = next(response.iter_bytes(), b"")
    said = read_envelope(content).error_message
    for name in ("x-api-key", "authorization"):
        said = said.replace(client.headers.get(name, "").removeprefix("Bearer ") or "\0", "…")
    quoted = f" ({shorten(said)})" if said else ""
    if status in (401, 403):
        return f"{host} does not accept the key in {KEY_VARIABLE} or {TOKEN_VARIABLE}{quoted}"
    if status == 404:
        return f"{host} has no such batch, or not for this key{quoted}"
    return f"{host} responds with status {status}{quoted}; try again later"


def split_lines(chunks: Iterable[bytes], max_bytes: int) -> Iterator[bytes | None]:
    """Yield the lines without line ends, and None in place of a line longer than ``max_bytes``."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            size += len(part)
            yield b"".join((*parts, part)) if size <= max_bytes else None
            parts, size = [], 0
        size += len(rest)
        parts = [*parts, rest] if size <= max_bytes else []
    if size:
        yield b"".join(parts) if size <= max_bytes else None
