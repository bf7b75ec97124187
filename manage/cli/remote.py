"""A remote service, spoken to through its HTTP API with a service API key.

Whatever goes wrong on the way is one RemoteError whose message says what to do. What comes back is
believed no further than it must be: text of a service is made harmless before it is shown.
"""

import os
import ssl
from collections.abc import Mapping
from datetime import date
from importlib.metadata import version
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx

from manage.cli.terminal import show
from metering.token_counts import list_flat_fields
from runtime.settings import LOOPBACK_HOSTS, Streaming
from store.control.api_keys import RAW_KEY
from store.control.endpoints import StreamingChange
from store.traces.usage_report import Grouping, Totals

API_KEY_VARIABLE = "TAXIMETER_API_KEY"
TIMEOUT_S, CONNECT_TIMEOUT_S = 30.0, 10.0
PAGE_LIMIT = 100
_MAX_MESSAGE = 300
_SUMS = tuple(list_flat_fields(Totals))

type Document = dict[str, Any]


class RemoteError(Exception):
    """The service refused, or could not be asked. The message is one harmless line."""


class ApiKeyError(Exception):
    """There is no usable service API key in the environment. The message never quotes it."""


def read_api_key(environ: Mapping[str, str] = os.environ) -> str:
    """Raises ApiKeyError. Anything but a service API key is refused here, so that an upstream
    credential that was put there by mistake does not travel."""
    key = environ.get(API_KEY_VARIABLE, "").strip()
    if not key:
        raise ApiKeyError(
            "a remote service wants a service API key in the environment variable"
            f" {API_KEY_VARIABLE}; `taximeter keys create` makes one where the service runs"
        )
    if not RAW_KEY.fullmatch(key):
        raise ApiKeyError(
            f"{API_KEY_VARIABLE} holds no service API key: those are sk_ and 43 letters, digits,"
            " - and _"
        )
    return key


def is_loopback(base_url: str) -> bool:
    return urlsplit(base_url).hostname in LOOPBACK_HOSTS


def is_exposed(base_url: str) -> bool:
    """Would the key travel to another machine without TLS?"""
    return base_url.startswith("http:") and not is_loopback(base_url)


class RemoteBackend:
    """See ``backend.Backend``. Every method raises RemoteError."""

    def __init__(self, base_url: str, api_key: str) -> None:
        self._base_url = base_url
        self._client = httpx.Client(
            base_url=f"{base_url}/api",
            headers={
                "authorization": f"Bearer {api_key}",
                "accept": "application/json",
                "user-agent": f"taximeter/{version('taximeter')}",
            },
            timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            verify=httpx.create_ssl_context(),  # SSL_CERT_FILE, else those bundled with httpx
            trust_env=not is_loopback(base_url),  # no HTTP proxy is on the way to this machine
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def list_endpoints(self) -> Document:
        return self._list("/proxy-endpoints")

    def create_endpoint(
        self, name: str, slug: str | None, streaming: Streaming | None, *, metadata_only: bool
    ) -> Document:
        body: Document = {"name": name}
        if slug is not None:
            body["slug"] = slug
        if streaming is not None:
            body["streaming"] = streaming
        if metadata_only:
            body["metadata_only"] = True
        return self._ask("POST", "/proxy-endpoints", json=body)

    def update_endpoint(
        self,
        id_or_slug: str,
        *,
        name: str | None,
        streaming: StreamingChange | None,
        metadata_only: bool | None,
    ) -> Document:
        body: Document = {}
        if name is not None:
            body["name"] = name
        if streaming is not None:
            body["streaming"] = None if streaming == "service" else streaming
        if metadata_only is not None:
            body["metadata_only"] = metadata_only
        return self._ask("PATCH", _endpoint_path(id_or_slug), json=body)

    def delete_endpoint(self, id_or_slug: str) -> Document:
        return self._ask("DELETE", _endpoint_path(id_or_slug))

    def list_keys(self) -> Document:
        return self._list("/api-keys")

    def create_key(self, name: str) -> Document:
        document = self._ask("POST", "/api-keys", json={"name": name})
        if not isinstance(document.get("key"), str):
            raise self._not_ours("a new key without its key")
        return document

    def delete_key(self, key_id: str) -> Document:
        return self._ask("DELETE", f"/api-keys/{_quote(key_id)}")

    def usage(self, by: Grouping, from_day: date | None, to_day: date | None) -> Document:
        query: dict[str, str] = {"by": by}
        if from_day is not None:
            query["from"] = from_day.isoformat()
        if to_day is not None:
            query["to"] = to_day.isoformat()
        document = self._ask("GET", "/usage", params=query)
        groups, totals = document.get("groups"), document.get("totals")
        if not isinstance(groups, list) or not all(map(_has_sums, [totals, *groups])):
            raise self._not_ours("no totals")
        return document

    def run_usage(self, run_id: str) -> Document:
        document = self._ask("GET", f"/runs/{_quote(run_id)}")
        models, pending = document.get("models"), document.get("pending")
        has_sums = isinstance(models, list) and all(
            map(_has_sums, [document.get("totals"), *models])
        )
        if not has_sums or not isinstance(pending, int):
            raise self._not_ours("no totals of a run")
        return document

    def _list(self, path: str) -> Document:
        """Every page as one."""
        items: list[Document] = []
        query: dict[str, str | int] = {"limit": PAGE_LIMIT}
        seen: set[str] = set()
        while True:
            page = self._ask("GET", path, params=query)
            found, cursor = page.get("items"), page.get("nextCursor")
            if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
                raise self._not_ours("no list of items")
            items += found
            if not cursor:
                return {"items": items, "nextCursor": None, "hasMore": False}
            if not isinstance(cursor, str) or cursor in seen:
                raise self._not_ours("a list without an end")
            seen.add(cursor)
            query["cursor"] = cursor

    def _ask(self, method: str, path: str, **parts: Any) -> Document:
        try:
            answer = self._client.request(method, path, **parts)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RemoteError(f"{self._base_url} {_explain(error)}") from error
        document = _parse(answer)
        if answer.is_success and document is not None:
            return document
        raise self._refusal(answer, document)

    def _refusal(self, answer: httpx.Response, document: Document | None) -> RemoteError:
        status = answer.status_code
        if answer.is_redirect:
            target = _shorten(answer.headers.get("location", ""))
            return RemoteError(
                f"{self._base_url} redirects to {target}; give the address that is meant"
            )
        error = (document or {}).get("error")
        message = error.get("message") if isinstance(error, dict) else None
        if not isinstance(message, str):
            kind = answer.headers.get("content-type", "no type").partition(";")[0]
            return self._not_ours(f"status {status}, {_shorten(kind)}")
        if status == 401:
            return RemoteError(
                f"{self._base_url} does not accept the key in {API_KEY_VARIABLE}; it may have been"
                " deleted, or be of another service (`taximeter keys create` makes one)"
            )
        if status == 429:
            wait = _shorten(answer.headers.get("retry-after", ""))
            again = f"; try again in {wait} s" if wait.isdigit() else "; try again later"
            return RemoteError(f"{_shorten(message)}{again}")
        if status >= 500:
            return RemoteError(f"{self._base_url} failed with {status}: {_shorten(message)}")
        return RemoteError(_shorten(message))

    def _not_ours(self, what: str) -> RemoteError:
        return RemoteError(
            f"what answers at {self._base_url} is not Taximeter's API ({what});"
            " check the address given with --base-url"
        )


def _has_sums(sums: object) -> bool:
    return isinstance(sums, dict) and all(
        isinstance(sums.get(name), int | float | None) for name in _SUMS
    )


def _endpoint_path(id_or_slug: str) -> str:
    return f"/proxy-endpoints/{_quote(id_or_slug)}"


def _quote(name: str) -> str:
    """As one segment of a path; of dots alone there would be none left."""
    if not name.strip("."):
        raise RemoteError(f"{name!r} is neither an id nor a slug")
    return quote(name, safe="")


def _parse(answer: httpx.Response) -> Document | None:
    try:
        document = answer.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _explain(error: Exception) -> str:
    """What went wrong on the way, as the end of a sentence that begins with the address."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"has a certificate that is not trusted: {cause.verify_message}; point SSL_CERT_FILE"
                " at the certificate authority's file if it is yours"
            )
        if isinstance(cause, ssl.SSLError):
            return "does not speak TLS as it should; check http:// or https:// in --base-url"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.TimeoutException):
        is_connecting = isinstance(error, httpx.ConnectTimeout)
        return f"does not answer within {CONNECT_TIMEOUT_S if is_connecting else TIMEOUT_S:g} s"
    if isinstance(error, httpx.ConnectError):
        return (
            f"cannot be reached: {_shorten(str(error))}; is the service running, the address right?"
        )
    return f"broke off: {_shorten(str(error)) or type(error).__name__}"


def _shorten(text: str) -> str:
    return show(text)[:_MAX_MESSAGE] if text else ""
