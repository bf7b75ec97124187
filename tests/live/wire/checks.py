"""Examples and checks that the tests of the wire share."""

import json
from pathlib import Path
from typing import Any

from tests.live.service import Endpoint, Service
from tests.rawclient import Cut, Response
from tests.upstream import Headers, message_events

JSON: Headers = [("content-type", "application/json")]
HTML: Headers = [("content-type", "text/html")]
MEBI = 1 << 20
BEARER = "sk-ant-oat01-dummy-abcdefghijklmnopqrstuvwxyz9876543210"
EVENTS = message_events(["Hel", "lo", " wörld"])
STREAM = b"".join(EVENTS)


def error_of(response: Response) -> dict[str, Any]:
    """The error of an answer in the upstream's envelope."""
    assert (response.header("content-type") or "").startswith("application/json")
    document = json.loads(response.body)
    assert document["type"] == "error"
    assert set(document["error"]) == {"type", "message"}
    assert document["error"]["message"]
    error: dict[str, Any] = document["error"]
    return error


def assert_own_error(response: Response, status: int, kind: str) -> None:
    """It is an answer of the proxy itself, and says so."""
    assert response.status == status
    assert response.header("x-taximeter-error")
    assert error_of(response)["type"] == kind


def barrier(service: Service) -> None:
    """After this answer the proxy's loop has dealt with all that had come in before it."""
    assert service.get("/livez").status == 200


def is_cut(endpoint: Endpoint, data: bytes | None = None) -> bool:
    """Return whether the client hears that its answer is not whole, and nothing that looks like another."""
    try:
        response = endpoint.send(data)
    except Cut:
        return True
    if response.status == 502:  # nothing of the answer had come when a reset overtook it
        return True
    return response.cut and response.status == 200


def wait_spooled(service: Service, text: bytes) -> None:
    """Wait until the proxy has got so far with an answer."""
    service.wait_until(
        lambda: any(text in _read(path) for path in service.data_dir.glob("spool/*/*.open")),
        f"{text!r} in the spool",
    )


def files_with(service: Service, *needles: bytes) -> list[str]:
    """Return the files in the data directory that hold any of these.

    A file that goes away meanwhile may stand under another name, so all are looked at again."""
    found: list[str] = []

    def has_read_all() -> bool:
        try:
            files = [path for path in service.data_dir.rglob("*") if path.is_file()]
            found[:] = [path.name for path in files if _holds(path, needles)]
        except FileNotFoundError:
            return False
        return True

    service.wait_until(has_read_all, "files that stay where they are")
    return found


def _holds(path: Path, needles: tuple[bytes, ...]) -> bool:
    content = path.read_bytes()
    return any(needle in content for needle in needles)


def _read(path: Path) -> bytes:
    """Return what is in a file of a running service, nothing if it is there no more."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
