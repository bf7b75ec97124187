"""A remote service, used through its HTTP API with a service API key.

A refusal raises the same ControlError as a local command; every other failure is a RemoteError
whose message says what to do. Responses are validated, and text in them is made safe to print.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, Self
from urllib.parse import quote, urlsplit

import click
import httpx
from pydantic import ValidationError

from manage.api.operation import Operation
from manage.api.validation import validate
from manage.cli.console import API_KEY_VARIABLE, BackendError
from manage.http_client import (
    describe_fault,
    explain_connection_error,
    load_trust_store,
    shorten,
)
from runtime import response_headers
from runtime.errors import ControlError, restore_error
from runtime.settings import LOOPBACK_HOSTS
from store.control.api_keys import RAW_KEY
from store.json_models import RequestModel, ResponseModel
from wire.json_reading import parse_object

TIMEOUT_S, CONNECT_TIMEOUT_S = 30.0, 10.0
READ_FROM_COPY = (
    "Read from a copy, which may lack the newest calls: the node that keeps the calls of this organisation"
    " does not respond."
)
_ADVICE = "check that the service runs and the address is right"


class RemoteError(BackendError):
    """The service failed or could not be reached. The message is one line, safe to print."""


class AwayError(RemoteError):
    """The service does not respond; an error may come from a proxy in front of it."""


class ApiKeyError(Exception):
    """The environment has no usable service API key. The message never quotes its value."""


def read_api_key(environ: Mapping[str, str] = os.environ) -> str:
    """Return the service API key from the environment. Raises ApiKeyError.

    Any other value is refused, so that an upstream credential that was put there by mistake is not
    sent."""
    key = environ.get(API_KEY_VARIABLE, "").strip()
    if not key:
        raise ApiKeyError(
            "a remote service needs a service API key in the environment variable"
            f" {API_KEY_VARIABLE}; `taximeter keys create` creates one where the service runs"
        )
    if not RAW_KEY.fullmatch(key):
        raise ApiKeyError(
            f"{API_KEY_VARIABLE} is not a service API key: a key is sk_ and 43 letters, digits,"
            " - and _"
        )
    return key


def is_loopback(base_url: str) -> bool:
    return urlsplit(base_url).hostname in LOOPBACK_HOSTS


def is_exposed(base_url: str) -> bool:
    """Return whether a key would be sent to another machine without TLS."""
    return base_url.startswith("http:") and not is_loopback(base_url)


@contextmanager
def open_remote(address: str, tell: Callable[[str], object]) -> Iterator["RemoteBackend"]:
    """Open the service at ``address`` with the API key from the environment. Raises UsageError."""
    try:
        api_key = read_api_key()
    except ApiKeyError as error:
        raise click.UsageError(str(error)) from error
    if is_exposed(address):
        click.echo(
            "Warning: without https the key can be read on its way to the service.", err=True
        )
    with RemoteBackend(address, KeyAuth(api_key), tell) as backend:
        yield backend


class KeyAuth(httpx.Auth):
    """The authentication of requests by a service API key."""

    def __init__(self, api_key: str) -> None:
        self._api_key = api_key

    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]
        """Yield the request with the key added."""
        request.headers["authorization"] = f"Bearer {self._api_key}"
        yield request


class RemoteBackend:
    """A remote service, accessed with the identity in ``auth``. See ``backend.Backend``.

    Methods also raise RemoteError."""

    def __init__(
        self,
        base_url: str,
        auth: httpx.Auth,
        tell: Callable[[str], object],
        *,
        timeout: httpx.Timeout | None = None,
        uses_proxies: bool = True,
    ) -> None:
        """Use the service at ``base_url``.

        ``tell`` is called with a note for the user if a response was read from a copy of the calls.
        ``uses_proxies``: use the HTTP proxies of the environment, except for this machine."""
        self.base_url = base_url
        self._tell = tell
        self._client = httpx.Client(
            base_url=f"{base_url}/api",
            auth=auth,
            headers={
                "accept": "application/json",
                "user-agent": f"taximeter/{version('taximeter')}",
            },
            timeout=timeout or httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            verify=load_trust_store(),
            # None is on the way to this machine.
            trust_env=uses_proxies and not is_loopback(base_url),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def call[Request: RequestModel, Response: ResponseModel](
        self, operation: Operation[Request, Response], id_: str = "", /, **fields: object
    ) -> Response:
        request = validate(operation.request, fields, by_name=True)
        # Only the fields that were given: a service of an older version may not know the others.
        document = request.model_dump(mode="json", by_alias=True, exclude_unset=True)
        response = self._send(
            operation.method,
            _make_path(operation.path, id_),
            params=None if operation.takes_body else document,
            json=document if operation.takes_body else None,
        )
        if not response.is_success:
            raise self.explain(response)
        if response_headers.COPY in response.headers:
            self._tell(READ_FROM_COPY)
        try:
            return operation.response.model_validate_json(response.content)
        except ValidationError as error:
            is_object = parse_object(response.content) is not None
            what = describe_fault(error) if is_object else _describe_kind(response)
            raise self._unexpected(what) from error

    def _send(self, method: str, path: str, **parts: Any) -> httpx.Response:
        try:
            return self._client.request(method, path, **parts)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise AwayError(
                f"{self.base_url} {explain_connection_error(error, _ADVICE)}"
            ) from error

    def explain(self, response: httpx.Response) -> ControlError | RemoteError:
        """Return the error for a response without a success status."""
        status = response.status_code
        if response.is_redirect:
            target = shorten(response.headers.get("location", ""))
            return RemoteError(
                f"{self.base_url} redirects to {target}; use that address if it is the right one"
            )
        error = (parse_object(response.content) or {}).get("error")
        text = error.get("message") if isinstance(error, dict) else None
        if not isinstance(error, dict) or not isinstance(text, str):
            return self._unexpected(_describe_kind(response))
        message = shorten(text)
        if status == 401:
            return RemoteError(
                f"{self.base_url} does not accept the key in {API_KEY_VARIABLE}; it may have been"
                " deleted, or belong to another service (`taximeter keys create` creates one)"
            )
        if status == 429:
            wait = shorten(response.headers.get("retry-after", ""))
            again = f"; try again in {wait} s" if wait.isdigit() else "; try again later"
            return RemoteError(f"{message}{again}")
        if status >= 500:
            # With a header of ours it is of what is in front of the service.
            kind = AwayError if response_headers.ERROR in response.headers else RemoteError
            return kind(f"{self.base_url} failed with {status}: {message}")
        restored = restore_error(status, error.get("code"), message, error.get("field"))
        return RemoteError(message) if restored is None else restored

    def _unexpected(self, what: str) -> RemoteError:
        return RemoteError(
            f"{self.base_url} is not Taximeter's API ({what});"
            " check the address given with --base-url"
        )


def _make_path(path: str, id_: str) -> str:
    if "{id}" not in path:
        return path
    if not id_.strip("."):  # of dots alone there would be no segment left
        raise RemoteError(f"{id_!r} is neither an id nor a slug")
    return path.replace("{id}", quote(id_, safe=""))


def _describe_kind(response: httpx.Response) -> str:
    kind = response.headers.get("content-type", "no type").partition(";")[0]
    return f"status {response.status_code}, {shorten(kind)}"
