"""The search for credentials in recorded calls: in what each of them added, in the background.

A request repeats its conversation, and the pieces that it is stored as do not: those with a higher id
than any before are new. So a conversation is searched once, however often it is sent, and a call costs
what its new text does.
"""

import hmac
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from metering.json_reading import as_list, as_object, as_text, parse_object
from metering.sse import looks_like_sse, parse_events
from recorder.open_databases import OpenDatabases
from recorder.secret_rules import Found, RulesMissingError, find_secrets
from store import database
from store.control.database import ControlDatabase
from store.traces import bodies
from store.traces.bodies import MissingPieceError
from store.traces.found_secrets import Finding, FoundSecrets, Progress
from store.traces.paths import trace_path

logger = logging.getLogger(__name__)

STEP_S = 0.02
RETRY_S = 60.0
CALLS_AT_ONCE = 20
EARLIER_CALLS = 10_000  # of those that were recorded before the first search
MAX_TEXT_BYTES = 256_000  # of the new text of a request, and of a response
MAX_BODY_BYTES = 8 << 20
DIGEST_BYTES = 16
# What JSON has in the place of characters that may stand beside a credential.
_ESCAPES = (("\\n", "\n"), ("\\t", "\t"), ("\\r", "\n"), ('\\"', '"'), ("\\/", "/"))
_DELTAS = ("text", "thinking", "partial_json")


class SecretSearch:
    """Searches the calls of one organisation after the other."""

    def __init__(
        self,
        data_dir: Path,
        control_path: Path,
        databases: OpenDatabases,
        clock_s: Callable[[], float],
    ) -> None:
        """Search calls in these databases. ``clock_s`` is a monotonic clock."""
        self._data_dir = data_dir
        self._control_path = control_path
        self._databases = databases
        self._clock_s = clock_s
        self._key: bytes | None = None
        self._waiting: dict[str, float] = {}  # by organisation: not before this time

    def begin(self, organization_id: str) -> None:
        """Take up an organisation that has new calls."""
        self._waiting.setdefault(organization_id, 0.0)

    def run_step(self) -> None:
        """Search some calls. Never raises: what cannot be done now is tried again later."""
        now_s = self._clock_s()
        ready = (each for each, not_before_s in self._waiting.items() if now_s >= not_before_s)
        organization_id = next(ready, None)
        if organization_id is None:
            return
        try:
            is_done = self._search_some(organization_id)
        except (sqlite3.Error, OSError, ValueError, MissingPieceError, RulesMissingError) as error:
            logger.warning("Calls of %s cannot be searched now: %s", organization_id, error)
            self._waiting[organization_id] = now_s + RETRY_S
            return
        del self._waiting[organization_id]
        if not is_done:
            self._waiting[organization_id] = 0.0  # behind the others

    def _search_some(self, organization_id: str) -> bool:
        """Search some calls of an organisation; return whether these were the last."""
        traces = self._databases.open(organization_id).connection
        ends_at_s = self._clock_s() + STEP_S
        with closing(FoundSecrets(trace_path(self._data_dir, organization_id))) as found:
            while True:
                progress = found.read_progress() or _choose_start(traces)
                rows = _list_calls(traces, progress.usage_id)
                findings: list[Finding] = []
                known: set[bytes] = set()
                for usage_id, created_at in rows:
                    new, piece_id = _read_new(traces, usage_id, progress.piece_id)
                    more = list(self._search_call(traces, usage_id, created_at, new))
                    # What the model said is in its response first, and in the next request as history.
                    findings += (
                        each
                        for each in more
                        if each.place != "assistant"
                        or not (each.digest in known or found.is_known(each.digest, usage_id))
                    )
                    known.update(each.digest for each in more)
                    progress = Progress(usage_id, piece_id)
                    if self._clock_s() >= ends_at_s:
                        break
                if rows:
                    found.add(progress, findings)
                if not rows or self._clock_s() >= ends_at_s:
                    return not rows

    def _search_call(
        self,
        traces: sqlite3.Connection,
        usage_id: int,
        created_at: str,
        new: str,
    ) -> Iterator[Finding]:
        by_digest: dict[bytes, Finding] = {}
        request: dict[str, object] | None = None
        for secret in find_secrets(_unescape(new)):
            if request is None:
                request = _read_request(traces, usage_id)
            digest = self._digest(secret)
            place = find_place(request, secret.probe)
            by_digest[digest] = _make(usage_id, created_at, secret, digest, place)
        for secret in find_secrets(_unescape(_read_response(traces, usage_id))):
            digest = self._digest(secret)
            by_digest.setdefault(digest, _make(usage_id, created_at, secret, digest, "response"))
        yield from by_digest.values()

    def _digest(self, secret: Found) -> bytes:
        if self._key is None:
            with ControlDatabase(self._control_path) as control:
                self._key = control.get_secret("secrets in traces")
        value = secret.value.encode("utf-8", "replace")
        return hmac.digest(self._key, value, "sha256")[:DIGEST_BYTES]


def find_place(request: dict[str, object], probe: str) -> str:
    """Return who said a text in a request: ``system``, ``tool`` (a description), a role, or
    ``tool_result``; ``request`` where it is in no part of the prompt."""
    if _has(request.get("system"), probe):
        return "system"
    if _has(request.get("tools"), probe):
        return "tool"
    for message in reversed(as_list(request.get("messages"))):
        fields = as_object(message)
        if not _has(fields.get("content"), probe):
            continue
        for block in as_list(fields.get("content")):
            kind = as_text(as_object(block).get("type"))
            if kind.endswith("tool_result") and _has(block, probe):
                return "tool_result"
        role = as_text(fields.get("role"))
        return role if role in ("user", "assistant", "system") else "request"
    return "request"


def _has(value: object, probe: str) -> bool:
    """Return whether a text is in a value or anything within."""
    open_ = [value]
    while open_:
        each = open_.pop()
        if isinstance(each, str):
            if probe in each:
                return True
        elif isinstance(each, dict):
            open_ += each.values()
        elif isinstance(each, list):
            open_ += each
    return False


def _make(usage_id: int, created_at: str, secret: Found, digest: bytes, place: str) -> Finding:
    return Finding(
        usage_id=usage_id,
        digest=digest,
        kind=secret.kind,
        place=place,
        shown=secret.shown,
        created_at=created_at,
    )


def _unescape(text: str) -> str:
    """Return JSON as text, as far as the search needs it: twice, for JSON within a string of JSON."""
    for _ in range(2):
        for escape, character in _ESCAPES:
            text = text.replace(escape, character)
    return text


def _choose_start(traces: sqlite3.Connection) -> Progress:
    newest = traces.execute("select max(id) from usage").fetchone()[0] or 0
    return Progress(max(0, newest - EARLIER_CALLS), 0)


def _list_calls(traces: sqlite3.Connection, after: int) -> Sequence[tuple[int, str]]:
    sql = "select id, created_at from usage where id > ? order by id limit ?"
    return traces.execute(sql, (after, CALLS_AT_ONCE)).fetchall()


def _read_new(traces: sqlite3.Connection, usage_id: int, after: int) -> tuple[str, int]:
    """Return the text of a request that no call before had, and the id of the last piece. What was
    removed meanwhile is empty."""
    with database.snapshot(traces):
        row = traces.execute(
            "select segment_ids from request_bodies where usage_id = ?", (usage_id,)
        ).fetchone()
        if row is None or row[0] is None:
            return "", after
        ids = bodies.read_piece_ids(traces, row[0])
        new = [each for each in ids if each > after]
        text = bodies.read_pieces(traces, new)[:MAX_TEXT_BYTES] if new else b""
    return text.decode("utf-8", "replace"), max(ids, default=after) if new else after


def _read_request(traces: sqlite3.Connection, usage_id: int) -> dict[str, object]:
    """Return a request, empty for one that is very long or was removed meanwhile."""
    with database.snapshot(traces):
        row = traces.execute(
            "select segment_ids from request_bodies where usage_id = ?", (usage_id,)
        ).fetchone()
        ids = [] if row is None or row[0] is None else bodies.read_piece_ids(traces, row[0])
        body = bodies.read_pieces(traces, ids)
    return (parse_object(body) if len(body) <= MAX_BODY_BYTES else None) or {}


def _read_response(traces: sqlite3.Connection, usage_id: int) -> str:
    """Return the beginning of a response, that of a stream without what is between its words."""
    row = traces.execute(
        "select substr(cast(body as blob), 1, ?) from response_bodies where usage_id = ?",
        (MAX_TEXT_BYTES, usage_id),
    ).fetchone()
    body = b"" if row is None or row[0] is None else bytes(row[0])
    if not looks_like_sse(body):
        return body.decode("utf-8", "replace")
    blocks: dict[object, list[str]] = {}
    for event in parse_events(body):
        document = parse_object(event.data) or {}
        delta = as_object(document.get("delta"))
        words = [as_text(delta.get(name)) for name in _DELTAS]
        blocks.setdefault(as_text(str(document.get("index"))), []).extend(filter(None, words))
    return "\n".join("".join(parts) for parts in blocks.values())
