"""Requests to the Admin API, with limits on time, size, pages and attempts.

The key is in the headers of the client and nowhere else: no URL, message or ``repr`` contains it."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Self

import httpx
from pydantic import ValidationError

from extensions.reconcile.admin_key import AdminKeyError, ReportError, explain_refusal
from extensions.reconcile.shapes import AnyPage
from manage.http_client import (
    MAX_MESSAGE_CHARS,
    describe_fault,
    explain_connection_error,
    find_tls_error,
    load_trust_store,
    shorten,
)
from runtime import clock
from wire.envelope import read_envelope

API_VERSION = "2023-06-01"
CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 10.0, 60.0
RESPONSE_TIMEOUT_S = 120.0
MAX_RESPONSE_BYTES = 64_000_000
MAX_ATTEMPTS = 4
MAX_WAIT_S = 60.0
FIRST_WAIT_S = 1.0
_ADVICE = "check the network and the address"

logger = logging.getLogger(__name__)

type Parameters = Mapping[str, str | int | list[str]]


class AdminApi:
    """A connection to the Admin API, or with a ``beta`` to the analytics reports.

    ``organization_id`` is the organisation of the key, None until upstream has named it."""

    def __init__(
        self,
        base_url: str,
        admin_key: str,
        vendor: str = "anthropic",
        *,
        beta: str | None = None,
        is_local: bool = False,
        tell: Callable[[str], None] = logger.info,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare the connection. Raises OSError if the trust store cannot be read.

        ``beta`` is sent in a header of each request. ``is_local``: use no HTTP proxy. ``tell`` is
        called with a line before each wait."""
        self.base_url = base_url.rstrip("/")
        self.organization_id: str | None = None
        self._vendor = vendor
        self._is_analytics = beta is not None
        self._tell = tell
        self._sleep = sleep
        headers = {} if beta is None else {f"{vendor}-beta": beta}
        self._client = httpx.Client(
            headers=headers
            | {
                "x-api-key": admin_key,
                f"{vendor}-version": API_VERSION,
                "accept": "application/json",
                "user-agent": f"taximeter/{version('taximeter')}",
            },
            timeout=httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            verify=base_url.startswith("https:") and load_trust_store(),
            trust_env=not is_local,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def iter_pages[PageType: AnyPage](
        self, path: str, parameters: Parameters, page_type: type[PageType], max_pages: int
    ) -> Iterator[PageType]:
        """Yield the pages of a report. Raises ReportError, also if there are more than ``max_pages``."""
        token: str | None = None
        seen: set[str] = set()
        for _ in range(max_pages):
            content = self._get(
                path, parameters if token is None else {**parameters, "page": token}
            )
            try:
                page = page_type.model_validate_json(content)
            except ValidationError as error:
                raise self._unexpected(path, describe_fault(error)) from None
            yield page
            if not page.has_more:
                return
            token = page.next_page
            if not token:
                raise self._unexpected(path, "has_more without next_page")
            if token in seen:
                break
            seen.add(token)
        raise self._unexpected(path, "a report without an end")

    def _get(self, path: str, parameters: Parameters) -> bytes:
        """Return the body of a response with status 200, after several attempts if necessary.

        Raises ReportError."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            is_last = attempt == MAX_ATTEMPTS
            wait_s = FIRST_WAIT_S * 2 ** (attempt - 1)
            try:
                response, content = self._request(path, parameters)
            except httpx.TransportError as error:
                trouble = f"{self.base_url} {explain_connection_error(error, _ADVICE)}"
                if is_last or find_tls_error(error) is not None:
                    raise ReportError(trouble) from error
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise ReportError(
                    f"{self.base_url} {explain_connection_error(error, _ADVICE)}"
                ) from error
            else:
                if response.status_code == 200:
                    self._note_organization(response)
                    return content
                asked_s = _read_retry_after(response)
                if is_last or not _is_passing(response) or (asked_s or 0) > MAX_WAIT_S:
                    raise self._refusal(path, response, content, asked_s)
                trouble = f"{self.base_url} answers with status {response.status_code}"
                wait_s = wait_s if asked_s is None else asked_s
            self._tell(f"{trouble}; trying again in {wait_s:.0f} s")
            self._sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    def _request(self, path: str, parameters: Parameters) -> tuple[httpx.Response, bytes]:
        """Send a request and return the response with its body, whose arrival may take a limited time."""
        deadline = time.monotonic() + RESPONSE_TIMEOUT_S
        content = bytearray()
        with self._client.stream("GET", self.base_url + path, params=parameters) as response:
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > MAX_RESPONSE_BYTES:
                    raise ReportError(f"{self.base_url}{path} sends more than a report can have")
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the response is too slow")
        return response, bytes(content)

    def _note_organization(self, response: httpx.Response) -> None:
        named = response.headers.get(f"{self._vendor}-organization-id", "")
        self.organization_id = named[:MAX_MESSAGE_CHARS] or self.organization_id

    def _refusal(
        self, path: str, response: httpx.Response, content: bytes, retry_after_s: float | None
    ) -> ReportError:
        status = response.status_code
        if response.is_redirect:
            return ReportError(
                f"{self.base_url} redirects reports elsewhere, where the key is not sent;"
                " name the right address with --admin-url"
            )
        said = self._find_message(content)
        if status in (401, 403):
            return AdminKeyError(
                explain_refusal(status, analytics=self._is_analytics)
                + (f" (upstream says: {said})" if said else "")
            )
        if status == 404:
            return ReportError(
                f"{self.base_url} has no {path}; if TAXIMETER_UPSTREAM_URL is a gateway, name"
                " upstream's own address with --admin-url"
            )
        if status == 429:
            again = "later" if retry_after_s is None else f"in {retry_after_s:.0f} s"
            return ReportError(f"upstream limits how often reports are fetched; try again {again}")
        if status >= 500:
            return ReportError(
                f"{self.base_url} failed with {status}{f': {said}' if said else ''}; try again later"
            )
        return ReportError(
            f"{self.base_url} refuses the report with {status}: {said or 'no message'}"
        )

    def _find_message(self, content: bytes) -> str:
        """Return the message of an error response, with the key removed if it contains that."""
        message = read_envelope(content).error_message
        return shorten(message.replace(self._client.headers["x-api-key"], "…"))

    def _unexpected(self, path: str, what: str) -> ReportError:
        return ReportError(
            f"{self.base_url}{path} does not respond with a report as documented ({what}); check the"
            " address, or update Taximeter"
        )


def _is_passing(response: httpx.Response) -> bool:
    return response.status_code == 429 or response.status_code >= 500


def _read_retry_after(response: httpx.Response) -> float | None:
    """Return the seconds to wait by the Retry-After header (a number or a date), None without a valid one."""
    text = response.headers.get("retry-after", "").strip()
    if text.isdecimal() and text.isascii():
        return float(text[:9])
    with suppress(ValueError):
        at = parsedate_to_datetime(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
        return max((at - clock.now()).total_seconds(), 0.0)
    return None
