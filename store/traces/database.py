"""Writing to a trace database.

Slow work that needs no database (hashing, cutting) is done before the write lock is taken. A batch
is one transaction. An entry that is stored already is not changed, nor are its hourly sums: a
recorder that was killed after the commit and before it deleted the spool file inserts the entry
again. Every method may raise sqlite3.Error; nothing has been stored then."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from metering.entry import UsageLogEntry
from metering.token_counts import list_flat_fields
from metering.upstream_objects import UpstreamObject
from runtime import extensions
from store import database
from store.spool.format import Rejection
from store.traces import annotations, schema, steps
from store.traces.bodies import bodies
from store.traces.bodies.bodies import (
    PieceStore,
    PreparedRequest,
    PreparedResponse,
    RequestPreparer,
    StoredBodies,
)
from store.traces.calls import (
    costs,
    credential_accounts,
    judgements,
    limit_readings,
    rate_limits,
    tool_uses,
    upstream_objects,
)
from store.traces.calls.judgements import StoredCall
from store.traces.maintenance import erasing, retention, verify
from store.traces.maintenance.criteria import Criteria
from store.traces.row_writer import insert_rows
from store.traces.sessions import agent_sums, session_sums
from store.traces.steps import Steps
from store.traces.sums import counters, output_sizes, rollup, tag_sums, timings

# A text that does not fit into what is left of a page begins the next one: with 16 KB a call of an agent
# takes a tenth less than with 8 KB, and a quarter less than with 4 KB. Calls that come together share the
# pages that they change; one that comes alone writes 0.6 MB to the log instead of 0.3 MB.
PAGE_BYTES = 16 * 1024
# The upper pages of its indexes, which each call changes. SQLite's own 2 MB are read again and again; much
# more than this is too much for the recorder, which has up to 64 databases open.
CACHE_KIB = 4 * 1024
_NOT_SCALAR = (
    "request_body",
    "response_body",
    "cost_items",
    "rate_limits",
    "output_size",
    "tool_uses",
)

_PATHS = {
    name: path for name, path in list_flat_fields(UsageLogEntry).items() if name not in _NOT_SCALAR
}
SCALARS = tuple(_PATHS)
_MONEY = ("cost_cents", "estimated_cents")
_PLAIN = tuple(name for name in SCALARS if name not in _MONEY)
_COLUMNS = (*_PLAIN, *_MONEY, "request_body_length", "response_body_length")
_read_plain = attrgetter(*(_PATHS[name] for name in _PLAIN))
_TEXTS = tuple(field.name for field in fields(UsageLogEntry) if field.type in (str, str | None))
_texts = attrgetter(*_TEXTS)


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class _Prepared:
    entry: UsageLogEntry
    row: tuple[object, ...]
    request: PreparedRequest | None
    response: PreparedResponse | None


class TraceDatabase:
    """The connection of a process that writes the traces of one organisation; it has only one."""

    def __init__(
        self,
        path: Path,
        *,
        max_cached_ids: int = bodies.MAX_CACHED_IDS,
        preparer: RequestPreparer | None = None,
    ) -> None:
        """Open the database; create and migrate it if needed.

        ``preparer`` may be shared by several databases: it remembers requests, nothing of a database.
        Raises sqlite3.Error and OSError."""
        self.path = path
        self.connection = database.open_database(path, schema.migrations, page_bytes=PAGE_BYTES)
        self.connection.execute(f"PRAGMA cache_size={-CACHE_KIB}")
        self._preparer = RequestPreparer() if preparer is None else preparer
        self._pieces = PieceStore(self.connection, max_cached_ids)
        self._counter = counters.CallCounter(self.connection)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def insert(
        self, entries: Sequence[UsageLogEntry], judged: Sequence[judgements.Judgement] = ()
    ) -> int:
        """Store all entries, or none, with judgements of them and of stored calls.

        Returns how many entries were new."""
        prepared = [self._prepare(entry) for entry in entries]
        tally, hours, times = rollup.Tally(), rate_limits.Hours(), timings.Timings()
        try:
            with database.immediate(self.connection):
                self._pieces.start_transaction()
                inserted = self._insert_rows(prepared)
                self._insert_bodies(inserted)
                new = [(usage_id, each.entry) for usage_id, each in inserted]
                self._insert_details(new)
                new_ids = [usage_id for usage_id, _ in new]
                if new:
                    earliest = min(entry.created_at for _, entry in new)
                    retention.note_arrival(self.connection, earliest)
                judgements.write_judgements(self.connection, judged, _by_entry_id(new))
                session_sums.book(self.connection, new_ids)
                agent_sums.book(self.connection, new_ids)
                tag_sums.book(self.connection, tag_sums.write_tags(self.connection, new))
                for _, entry in new:
                    times.add(tally.add(rollup.BookedCall.of(entry), entry.cost_items), entry)
                    hours.add(entry, entry.rate_limits)
                times.write(self.connection, tally.write(self.connection))
                hours.write(self.connection)
                self._counter.add(entry for _, entry in new)
        except BaseException:
            self._pieces.forget()
            self._counter.forget()
            raise
        return len(new)

    def _prepare(self, entry: UsageLogEntry) -> _Prepared:
        request, response = entry.request_body, entry.response_body
        labels = (entry.session_id, entry.agent_id)
        storable = _make_storable(entry)
        return _Prepared(
            entry=storable,
            row=_make_row(storable),
            request=None if request is None else self._preparer.prepare(request, *labels),
            response=None if response is None else bodies.prepare_response(response),
        )

    def _insert_rows(self, prepared: Sequence[_Prepared]) -> list[tuple[int, _Prepared]]:
        """Insert the rows of entries. Returns those that were not stored already, with row ids."""
        (last,) = self.connection.execute("select coalesce(max(id), 0) from usage").fetchone()
        insert_rows(
            self.connection,
            "usage",
            _COLUMNS,
            [each.row for each in prepared],
            "on conflict (entry_id) do nothing",
        )
        ids = dict(self.connection.execute("select entry_id, id from usage where id > ?", (last,)))
        return [
            (usage_id, each)
            for each in prepared
            if (usage_id := ids.pop(each.entry.entry_id, None)) is not None
        ]

    def _insert_bodies(self, inserted: Sequence[tuple[int, _Prepared]]) -> None:
        self._pieces.store([(n, each.request) for n, each in inserted if each.request is not None])
        bodies.store_responses(
            self.connection,
            [(n, each.response) for n, each in inserted if each.response is not None],
        )

    def _insert_details(self, new: Sequence[tuple[int, UsageLogEntry]]) -> None:
        """Insert the rows that entries have in other tables, with one statement for each table."""
        costs.write_items(
            self.connection, ((usage_id, entry.cost_items) for usage_id, entry in new)
        )
        rate_limits.write_limits(
            self.connection,
            (
                (usage_id, entry.rate_limits)
                for usage_id, entry in new
                if entry.rate_limits is not None
            ),
        )
        limit_readings.write_readings(self.connection, (entry for _, entry in new))
        credential_accounts.write_accounts(self.connection, (entry for _, entry in new))
        tool_uses.write_uses(
            self.connection, ((usage_id, entry.tool_uses) for usage_id, entry in new)
        )
        for _, entry in new:
            if entry.output_size is not None and entry.model is not None:
                output_sizes.write_size(self.connection, entry.model, entry.output_size)

    def annotate(
        self,
        calls: Sequence[tuple[str, annotations.Annotations]],
        sessions: Sequence[tuple[str, annotations.Annotations]] = (),
    ) -> None:
        """Add labels and notes to calls and sessions; an existing note stays.

        Each is given by the entry id of a stored call; for a session, of any call in it."""
        calls = [each for each in calls if each[1] != annotations.NOTHING]
        sessions = [each for each in sessions if each[1] != annotations.NOTHING]
        if calls or sessions:
            with database.immediate(self.connection):
                for entry_id, given in calls:
                    annotations.add_to_call(self.connection, entry_id, given)
                for entry_id, given in sessions:
                    annotations.add_to_session_of(self.connection, entry_id, given)

    def insert_rejections(self, flush_id: str, rejections: Sequence[Rejection]) -> None:
        """Store the counts of one flush of a proxy. The same flush again changes nothing."""
        counts = Counter[tuple[str, str, str, str]]()
        for each in rejections:
            counts[each.hour, each.proxy_endpoint_id, each.slug, each.bucket] += each.count
        with database.immediate(self.connection):
            self.connection.executemany(
                "insert into rejections (flush_id, hour, proxy_endpoint_id, slug, bucket, count)"
                " values (?, ?, ?, ?, ?, ?) on conflict do nothing",
                ((flush_id, *key, count) for key, count in counts.items()),
            )

    def write_upstream_objects(
        self, reading: upstream_objects.Reading, objects: Iterable[UpstreamObject]
    ) -> None:
        """Store managed sessions or dreams, in place of earlier rows for them."""
        with database.immediate(self.connection):
            upstream_objects.write_objects(self.connection, reading, objects)

    def read_upstream_object(self, object_id: str) -> UpstreamObject | None:
        """Return the stored state of a managed session or dream, or None."""
        return upstream_objects.read_object(self.connection, object_id)

    def list_upstream_objects(
        self, *, only_unpriced: bool
    ) -> list[tuple[upstream_objects.Reading, UpstreamObject]]:
        """Return all managed sessions and dreams, or those without a cost.

        Each comes with the response that last reported it."""
        return upstream_objects.list_objects(self.connection, only_unpriced=only_unpriced)

    def read_bodies(self, key: str | int) -> StoredBodies | None:
        """Return the exact bodies of an entry, by entry id or row id, or None if there is no such entry.

        Raises MissingPieceError if they cannot be rebuilt."""
        column = "id" if isinstance(key, int) else "entry_id"
        with database.snapshot(self.connection):
            row = self.connection.execute(
                f"select id from usage where {column} = ?",  # noqa: S608 - one of two names
                (key,),
            ).fetchone()
            return None if row is None else bodies.read_bodies(self.connection, row[0])

    def count_entries(self) -> int:
        count: int = self.connection.execute("select count(*) from usage").fetchone()[0]
        return count

    def verify(self) -> Iterator[verify.Problem]:
        """Yield the problems that ``store.traces.maintenance.verify`` finds."""
        return verify.verify(self.connection)

    def prune(
        self,
        *,
        before: str | None = None,
        texts_before: str | None = None,
        max_bytes: int | None = None,
        pause: steps.Pause = time.sleep,
    ) -> retention.Pruned:
        """Remove calls from before an instant, texts from before another, and the oldest calls.

        The oldest calls are removed until the file has at most ``max_bytes``."""
        limits = retention.Limits(entries_before=before, texts_before=texts_before)
        work = self.prune_in_steps(retention.Rules(limits=limits, max_bytes=max_bytes))
        with steps.patient(self.connection):
            return steps.run(work, pause)

    def prune_in_steps(self, rules: retention.Rules) -> Steps[retention.Pruned]:
        """Remove calls as described in ``maintenance.retention``. Calls may be inserted between the steps."""
        pruned = yield from self._forgetting(retention.prune(self.connection, rules))
        if pruned.entries:
            yield from self._tell_of_removal(is_erased=False)
        return pruned

    def erase_in_steps(self, erasure_id: str, criteria: Criteria) -> Steps[int]:
        """Remove calls as described in ``maintenance.erasing``, and return how many were removed.

        Calls may be inserted between the steps."""
        entries = yield from self._forgetting(erasing.erase(self.connection, erasure_id, criteria))
        yield from self._tell_of_removal(is_erased=True)
        return entries

    def _tell_of_removal(self, *, is_erased: bool) -> Steps[None]:
        for steps_ in extensions.call().calls_were_removed(
            path=self.path, traces=self.connection, is_erased=is_erased
        ):
            yield from steps_

    def _forgetting[Result](self, work: Steps[Result]) -> Steps[Result]:
        """Run ``work``, and forget the ids of pieces after each step.

        ``PRAGMA data_version`` changes only by commits of other connections."""
        while True:
            try:
                next(work)
            except StopIteration as end:
                result: Result = end.value
                return result
            finally:
                self._pieces.forget()
            yield

    def iter_unpriced(self) -> Iterator[costs.StoredCost]:
        """Yield entries that have no cost, oldest first. ``update_costs`` may be called meanwhile."""
        return costs.iter_costs(self.connection, only_unpriced=True)

    def iter_costs(self) -> Iterator[costs.StoredCost]:
        """Yield the stored cost of every entry, priced or not, oldest first."""
        return costs.iter_costs(self.connection, only_unpriced=False)

    def update_costs(self, new_costs: Sequence[costs.NewCost]) -> int:
        """Replace costs and line items, and add the difference to the hourly sums, all or none.

        Returns how many of the entries still exist."""
        with database.immediate(self.connection):
            return costs.write_costs(self.connection, new_costs)


def _by_entry_id(new: Sequence[tuple[int, UsageLogEntry]]) -> dict[str, StoredCall]:
    return {entry.entry_id: StoredCall(usage_id, entry.session_id) for usage_id, entry in new}


def _make_row(entry: UsageLogEntry) -> tuple[object, ...]:
    request, response = entry.request_body, entry.response_body
    return (
        *_read_plain(entry),
        costs.to_real(entry.cost_cents),
        costs.to_real(entry.estimated_cents),
        None if request is None else len(request),
        None if response is None else len(response),
    )


def _make_storable(entry: UsageLogEntry) -> UsageLogEntry:
    """Return the entry with characters replaced that SQLite cannot store: NUL and lone surrogates.

    Text from clients and upstream may contain them. Such an entry must not keep its whole batch out of
    the database; the body has the original."""
    named = (*_texts(entry), *_list_item_texts(entry))
    if _is_storable("".join(filter(None, named))):  # nearly always, so that one check is enough
        return entry
    repaired: dict[str, Any] = {
        name: _repair(value)
        for name, value in zip(_TEXTS, _texts(entry), strict=True)
        if value is not None and not _is_storable(value)
    }
    if not all(map(_is_storable, _list_item_texts(entry))):
        repaired["cost_items"] = tuple(
            item._replace(
                model=item.model and _repair(item.model),
                speed=item.speed and _repair(item.speed),
            )
            for item in entry.cost_items
        )
    return replace(entry, **repaired) if repaired else entry


def _list_item_texts(entry: UsageLogEntry) -> list[str]:
    """Return the texts in the line items that may come from clients or upstream."""
    return [text for item in entry.cost_items for text in (item.model, item.speed) if text]


def _is_storable(text: str) -> bool:
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _repair(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
