"""The choice of one copy of each message.

Transcripts of branches and of side questions contain copies. The choice prefers a copy outside
sidechains, then the one with most tokens, then the first. Choices are kept in a temporary database, so
that months of history need little memory."""

from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from metering.transcripts import Message
from store.database import list_columns, open_readonly, open_temporary

_TAKE = (
    "insert into chosen (message_id, request_id, rank, file) values (?, ?, ?, ?)"
    " on conflict (message_id) do update set rank = excluded.rank, file = excluded.file,"
    " request_id = excluded.request_id where excluded.rank > rank"
)
_SIDECHAIN_BITS = 60  # a rank is the total of tokens, below a bit for what is no sidechain
_BATCH = 5_000


class Choice:
    """The chosen copy of each message, named by the index of its file in the list of files."""

    def __init__(self) -> None:
        """Create the temporary database. Raises sqlite3.Error."""
        self._db = open_temporary()
        self._db.execute("pragma journal_mode = off")
        self._db.execute(
            "create table chosen (message_id text primary key, request_id text, rank integer not null,"
            " file integer not null, is_recorded integer not null default 0) without rowid"
        )
        self._db.execute("begin")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._db.close()

    def offer(self, message: Message, file: int) -> None:
        """Choose this copy of a message unless a better one is known. Raises sqlite3.Error."""
        rank = min(message.total, (1 << _SIDECHAIN_BITS) - 1)
        rank += 0 if message.is_sidechain else 1 << _SIDECHAIN_BITS
        self._db.execute(_TAKE, (message.id, message.request_id, rank, file))

    def mark_recorded(self, traces: Path, own_prefix: str) -> None:
        """Mark the messages that a trace database has as recorded calls, by message id or request id.

        Entries whose id begins with ``own_prefix`` do not count. Raises sqlite3.Error."""
        if not traces.exists():
            return
        with closing(open_readonly(traces, busy_timeout_s=5.0)) as db:
            has_messages = "message_id" in list_columns(db, "usage")
            if not list_columns(db, "usage"):
                return
            column = "message_id" if has_messages else "null"
            self._db.execute("create temp table recorded (request_id text)")
            calls = db.execute(
                f"select upstream_request_id, {column} from usage"  # noqa: S608 - our own names
                " where entry_id not between ? and ?",
                (own_prefix, f"{own_prefix}\U0010ffff"),
            )
            while batch := calls.fetchmany(_BATCH):
                self._db.executemany(
                    "update chosen set is_recorded = 1 where message_id = ?",
                    [(message_id,) for _, message_id in batch if message_id is not None],
                )
                self._db.executemany(
                    "insert into recorded values (?)",
                    [(request_id,) for request_id, _ in batch if request_id is not None],
                )
        self._db.execute("create index temp.recorded_request_id on recorded (request_id)")
        self._db.execute(
            "update chosen set is_recorded = 1 where request_id in (select request_id from recorded)"
        )
        self._db.execute("drop table recorded")

    def find(self, message_id: str) -> tuple[int, bool]:
        """Return the index of the file with the chosen copy, and whether the message is recorded already.

        The index is -1 for a message that was not offered, because it was written later."""
        with suppress(TypeError):
            file, is_recorded = self._db.execute(
                "select file, is_recorded from chosen where message_id = ?", (message_id,)
            ).fetchone()
            return int(file), bool(is_recorded)
        return -1, False
