"""The search for credentials in recorded calls: in the text that each call added, in the background.

A request repeats its conversation, but its stored pieces are not repeated: pieces with a higher id
than all before are new. So a conversation is searched once, however often it is sent, and the costs of
a call depend on its new text. The progress is stored with findings, and otherwise now and then: after
a crash some calls are searched again, with the same result."""

import hmac
import math
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import orjson

from extensions.credentials_in_calls.findings import Finding, FoundSecrets, Progress
from extensions.credentials_in_calls.rules import Found, find_secrets, may_have_secrets
from recorder.background import BackgroundWork
from recorder.open_databases import OpenDatabases
from store import database
from store.control.database import ControlDatabase
from store.traces.bodies import bodies
from store.traces.bodies.bodies import MissingPieceError
from store.traces.paths import trace_path
from wire.block import INPUT, TEXT, THINKING
from wire.content import read_content
from wire.request import Request
from wire.sse import looks_like_sse

STEP_S = 0.02
PAUSE_S = 1.0  # calls of a moment take less work together
CALLS_AT_ONCE, BYTES_AT_ONCE = 20, 4 << 20  # of calls that are looked through together
NOTED_AFTER = 500  # calls without a finding
EARLIER_CALLS = 10_000  # of those that were recorded before the first search
MAX_OPEN = 16
MAX_TEXT_BYTES = 256_000  # of the new text of a request, and of a response
MAX_BODY_BYTES = 8 << 20
DIGEST_BYTES = 16
# What JSON has in the place of characters that may stand beside a credential.
_ESCAPES = (("\\n", "\n"), ("\\t", "\t"), ("\\r", "\n"), ('\\"', '"'), ("\\/", "/"))
_DELTAS = (TEXT, THINKING, INPUT)
_CALLS = (
    "select u.id, u.created_at, coalesce(u.request_body_length, 0), q.segment_ids,"
    " substr(cast(r.body as blob), 1, ?) from usage as u"
    " left join request_bodies as q on q.usage_id = u.id"
    " left join response_bodies as r on r.usage_id = u.id where u.id > ? order by u.id limit ?"
)
_NEW_PIECES = (
    "select p.id, cast(p.text as blob) from json_each(?) as s cross join segments as g"
    " cross join json_each(g.piece_ids) as j cross join pieces as p"
    " where g.id = s.value and p.id = j.value and j.value > ? order by s.key, j.key"
)


class _Call(NamedTuple):
    id: int
    created_at: str
    request_bytes: int
    segment_ids: str | None
    response: bytes | None


class _NewText(NamedTuple):
    """The text of requests that no earlier call had, with the ids of the last segment and piece of it."""

    text: bytes
    segment_id: int
    piece_id: int


class _Reader:
    """Reads the text that calls added, in the order of the calls."""

    def __init__(self, traces: sqlite3.Connection, found: FoundSecrets) -> None:
        self.traces = traces
        self.found = found
        self._noted = found.read_progress() or _choose_start(traces)
        self._progress = self._done = self._noted
        # New pieces are in new segments. Not noted: after a start, all of a call are looked through.
        self._segment_id = 0

    def list_calls(self) -> list[_Call]:
        """Return the next calls to search, at least one if there is any."""
        values = MAX_TEXT_BYTES, self._progress.usage_id, CALLS_AT_ONCE
        calls = [_Call(*row) for row in self.traces.execute(_CALLS, values)]
        sizes = accumulate(call.request_bytes for call in calls)
        count = sum(size <= BYTES_AT_ONCE for size in sizes)
        return calls[: max(count, 1)]

    def pass_over(self, calls: Sequence[_Call]) -> bool:
        """Skip calls if their new text cannot contain a credential; return whether they were skipped.

        Checking many calls together takes half of the time."""
        new = self._read_new(calls, enough_bytes=MAX_TEXT_BYTES)
        if len(new.text) > MAX_TEXT_BYTES:  # of which some is not searched
            return False
        texts = [new.text.decode("utf-8", "replace")]
        texts += (_read_response(call.response) for call in calls if call.response)
        if may_have_secrets("\n".join(texts)):
            return False
        self._advance(calls[-1], new)
        return True

    def read_new(self, call: _Call) -> str:
        """Return the text of a request that no earlier call had. Text removed meanwhile is left out."""
        new = self._read_new([call])
        self._advance(call, new)
        return new.text[:MAX_TEXT_BYTES].decode("utf-8", "replace")

    def _read_new(self, calls: Sequence[_Call], enough_bytes: float = math.inf) -> _NewText:
        """Return the new text of requests, cut off once it has ``enough_bytes``."""
        lists = [orjson.loads(call.segment_ids) for call in calls if call.segment_ids is not None]
        new = [each for ids in lists for each in ids if each > self._segment_id]
        piece_id, texts, size = self._progress.piece_id, [], 0
        if new:
            values = orjson.dumps(list(dict.fromkeys(new))).decode(), piece_id
            for found_id, text in self.traces.execute(_NEW_PIECES, values):
                piece_id = max(piece_id, found_id)
                texts.append(text)
                size += len(text)
                if size > enough_bytes:
                    break
        return _NewText(b"".join(texts), max((self._segment_id, *new)), piece_id)

    def _advance(self, last: _Call, new: _NewText) -> None:
        self._segment_id = new.segment_id
        self._progress = Progress(last.id, new.piece_id)

    def note(self, findings: Sequence[Finding]) -> None:
        """Store the findings in the calls that were read, and from time to time the progress."""
        if findings or self._progress.usage_id - self._noted.usage_id >= NOTED_AFTER:
            self._write(self._progress, findings)
        self._done = self._progress

    def close(self) -> None:
        """Store the progress, and close the file of findings."""
        with suppress(sqlite3.Error):  # then some calls are searched again
            if self._done != self._noted:
                self._write(self._done, ())
        self.found.close()

    def _write(self, progress: Progress, findings: Sequence[Finding]) -> None:
        self.found.add(progress, findings)
        self._noted = progress


class SecretSearch(BackgroundWork):
    """Searches the calls of all organisations, one organisation after the other."""

    def __init__(
        self,
        data_dir: Path,
        control_path: Path,
        databases: OpenDatabases,
        clock_s: Callable[[], float],
    ) -> None:
        """Search calls in these databases. ``clock_s`` is a monotonic clock."""
        failure = "Calls of %s cannot be searched now: %s"
        super().__init__(databases, clock_s, self._search_some, failure, pause_s=PAUSE_S)
        self._data_dir = data_dir
        self._control_path = control_path
        self._key: bytes | None = None
        self._readers: dict[str, _Reader] = {}

    def close(self) -> None:
        """Store the progress of the search, and close all files."""
        while self._readers:
            self._close(next(iter(self._readers)))

    def _open(self, organization_id: str, traces: sqlite3.Connection) -> _Reader:
        """Return the reader of an organisation, which is kept while its database stays open."""
        reader = self._readers.pop(organization_id, None)
        if reader is not None and reader.traces is not traces:
            reader.close()
            reader = None
        if reader is None:
            found = FoundSecrets(trace_path(self._data_dir, organization_id))
            try:
                reader = _Reader(traces, found)
            except BaseException:
                found.close()
                raise
        self._readers[organization_id] = reader  # the last is the most recently used
        while len(self._readers) > MAX_OPEN:
            self._close(next(iter(self._readers)))
        return reader

    def _close(self, organization_id: str) -> None:
        reader = self._readers.pop(organization_id, None)
        if reader is not None:
            reader.close()

    def _search_some(self, organization_id: str, traces: sqlite3.Connection) -> bool:
        """Search some calls of an organisation; return whether there are more."""
        reader = self._open(organization_id, traces)
        ends_at_s = self._clock_s() + STEP_S
        while calls := reader.list_calls():
            findings: list[Finding] = []
            known: set[bytes] = set()
            for call in () if reader.pass_over(calls) else calls:
                more = self._search_call(reader, call)
                # What the model said is in its response first, and in the next request as history.
                findings += (
                    each
                    for each in more
                    if each.place != "assistant"
                    or not (each.digest in known or reader.found.is_known(each.digest, call.id))
                )
                known.update(each.digest for each in more)
                if self._clock_s() >= ends_at_s:
                    break
            reader.note(findings)
            if self._clock_s() >= ends_at_s:
                return True
        return False

    def _search_call(self, reader: _Reader, call: _Call) -> list[Finding]:
        by_digest: dict[bytes, Finding] = {}
        request: Request | None = None
        for secret in _find_in_json(reader.read_new(call)):
            if request is None:
                request = _read_request(reader.traces, call.id)
            digest = self._digest(secret)
            place = find_place(request, secret.probe)
            by_digest[digest] = _make(call, secret, digest, place)
        for secret in _find_in_json(_read_response(call.response or b"")):
            digest = self._digest(secret)
            by_digest.setdefault(digest, _make(call, secret, digest, "response"))
        return list(by_digest.values())

    def _digest(self, secret: Found) -> bytes:
        if self._key is None:
            with ControlDatabase(self._control_path) as control:
                self._key = control.get_secret("secrets in traces")
        value = secret.value.encode("utf-8", "replace")
        return hmac.digest(self._key, value, "sha256")[:DIGEST_BYTES]


def find_place(request: Request, probe: str) -> str:
    """Return where a request contains ``probe``: ``system``, ``tool`` (a description), a role, or
    ``tool_result``.

    Return ``request`` if no part of the prompt contains it."""
    if _has(request.system_content, probe):
        return "system"
    if any(_has(tool.value, probe) for tool in request.tools):
        return "tool"
    for message in reversed(request.messages):
        if not _has(message.content, probe):
            continue
        if any(block.is_result and _has(block.value, probe) for block in message.blocks):
            return "tool_result"
        return message.role if message.role in ("user", "assistant", "system") else "request"
    return "request"


def _has(value: object, probe: str) -> bool:
    """Return whether a value, or anything nested in it, contains ``probe``."""
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


def _make(call: _Call, secret: Found, digest: bytes, place: str) -> Finding:
    return Finding(
        usage_id=call.id,
        digest=digest,
        kind=secret.kind,
        place=place,
        shown=secret.shown,
        created_at=call.created_at,
    )


def _find_in_json(text: str) -> Iterator[Found]:
    """Yield the credentials in the strings of JSON."""
    if may_have_secrets(text):  # the literals of the rules have none of the characters of an escape
        yield from find_secrets(_unescape(text))


def _unescape(text: str) -> str:
    """Return JSON as text with escapes resolved as far as the search needs: twice, for JSON in a JSON
    string."""
    for _ in range(2):
        if "\\" not in text:
            break
        for escape, character in _ESCAPES:
            text = text.replace(escape, character)
    return text


def _choose_start(traces: sqlite3.Connection) -> Progress:
    newest = traces.execute("select max(id) from usage").fetchone()[0] or 0
    return Progress(max(0, newest - EARLIER_CALLS), 0)


def _read_request(traces: sqlite3.Connection, usage_id: int) -> Request:
    """Return a stored request, empty if it is very long or incomplete."""
    with suppress(MissingPieceError), database.snapshot(traces):
        body = bodies.read_request(traces, usage_id) or b""
        if len(body) <= MAX_BODY_BYTES:
            return Request.parse(body) or Request({})
    return Request({})


def _read_response(body: bytes) -> str:
    """Return the beginning of a response as text; for a stream, the words without the events around them."""
    if not looks_like_sse(body):
        return body.decode("utf-8", "replace")
    blocks = read_content(body).blocks
    return "\n".join(block.added(name) for block in blocks for name in _DELTAS)
