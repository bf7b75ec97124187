"""The part of the node that takes a bucket; see ``moves.py``."""

import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import orjson

from extensions.cluster import checks, records, server
from extensions.cluster.buckets import find_bucket_folders
from extensions.cluster.checks import RecordError
from extensions.cluster.moving import incoming, moves
from extensions.cluster.moving.moves import read_offer, read_piece, read_wish
from extensions.cluster.records import MOST_PIECE_BYTES, Move, Offer, Wish
from runtime.files import replace_private, sync
from store.traces.paths import trace_path_in, traces_folder

STATE = "move.json"
STABLE_S = 6.0  # longer than the five seconds that a failover may lose

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Arrival:
    """The received files of a move, in the folder ``incoming`` of the taking node.

    ``attempt`` is the attempt whose files are complete, None before. Folders of ``organizations`` that
    are no longer in ``folder`` have been moved to the traces."""

    folder: Path
    move: Move
    attempt: str | None = None
    organizations: Sequence[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> "Arrival":
        """Read the state that an earlier process stored in a folder. Raises OSError, RecordError."""
        make = partial(cls, folder)
        return checks.build(make, checks.parse_json((folder / STATE).read_bytes()), _STATE)

    def write(self) -> None:
        """Store the state durably. Raises OSError."""
        content = asdict(self)
        del content["folder"]
        replace_private(self.folder / STATE, orjson.dumps(content))
        sync(self.folder / STATE)
        sync(self.folder)

    def clear(self, data_dir: Path) -> None:
        """Remove received files and start with an empty folder. Raises OSError."""
        self.take_back(data_dir)
        self.folder = incoming.make_folder(data_dir)
        self.attempt, self.organizations = None, []
        self.write()

    def place(self, traces: Path) -> None:
        """Move received folders to the traces. Raises OSError if one exists there already."""
        traces.mkdir(mode=0o700, exist_ok=True)
        for each in self.organizations:
            if (self.folder / each).exists():
                if (traces / each).exists():
                    raise FileExistsError(f"{traces / each} is there already")
                (self.folder / each).rename(traces / each)
        sync(traces)

    def take_back(self, data_dir: Path) -> None:
        """Remove all received files, also those in the traces, since the giving node still has them."""
        for each in self.organizations:
            placed = traces_folder(data_dir) / each
            if not (self.folder / each).exists() and placed.exists():
                placed.rename(self.folder / each)
        if self.folder.exists():
            incoming.remove(data_dir, self.folder)


_STATE = {
    "move": records.build_move,
    "attempt": checks.optional(checks.identifier),
    "organizations": checks.items(checks.name),
}


class Taker:
    """Takes buckets, on one node. ``paused`` are buckets that it must not receive yet."""

    def __init__(
        self,
        client: server.Client,
        node: str,
        data_dir: Path,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take buckets into ``data_dir``, continuing earlier moves. Raises OSError."""
        self._client = client
        self._node = node
        self._data_dir = data_dir
        self._clock_s = clock_s
        self._arrivals = {each.move.id: each for each in self._find_arrivals()}
        self._kept_since_s: dict[str, float] = {}
        self._wish = Wish()
        self._offer: Offer | None = None  # the one of the attempt that goes on
        self._said: Wish | None = None
        self.paused = frozenset(each.move.bucket for each in self._arrivals.values())

    def _find_arrivals(self) -> list[Arrival]:
        found = []
        for folder in incoming.list_folders(self._data_dir):
            try:
                found.append(Arrival.read(folder))
            except (FileNotFoundError, RecordError):  # it was killed at its beginning or its end
                incoming.remove(self._data_dir, folder)
        return found

    def run_round(self, move: Move | None, holders: Sequence[str | None]) -> bool:
        """Do the next step of a move; return whether another step can follow at once.

        ``holders`` are the nodes that keep the buckets. Raises redis.RedisError, OSError."""
        for arrival in list(self._arrivals.values()):
            self._look_after(arrival, move, holders[arrival.move.bucket])
        is_busy = False
        if move is not None and holders[move.bucket] == move.giver:
            is_busy = self._ask(move)
        elif (
            move is not None
            and holders[move.bucket] == self._node
            and move.id not in self._arrivals
        ):
            self._say(move, Wish(is_placed=True))
        waiting = {each.move.bucket for each in self._arrivals.values()}
        if move is not None and holders[move.bucket] != self._node:
            waiting.add(move.bucket)
        self.paused = frozenset(waiting)
        return is_busy

    def _look_after(self, arrival: Arrival, move: Move | None, holder: str | None) -> None:
        """Move received files to the traces if this node keeps the bucket; remove those of an ended move."""
        id_ = arrival.move.id
        is_kept = holder == self._node
        if is_kept and arrival.attempt is not None:
            arrival.place(traces_folder(self._data_dir))
            since_s = self._kept_since_s.setdefault(id_, self._clock_s())
            if self._clock_s() - since_s >= STABLE_S:
                incoming.remove(self._data_dir, arrival.folder)
                del self._arrivals[id_], self._kept_since_s[id_]
            return
        was_kept = self._kept_since_s.pop(id_, None) is not None
        # A node that keeps the bucket before it has the files was given it as one without calls.
        if was_kept or is_kept or move is None or move.id != id_:
            arrival.take_back(self._data_dir)
            del self._arrivals[id_]

    def _ask(self, move: Move) -> bool:
        """Write the piece that was requested, and request the next one; return whether the move goes on."""
        if move.id not in self._arrivals:
            if find_bucket_folders(self._data_dir, move.bucket):
                refusal = f"the node has calls of bucket {move.bucket} already"
                self._say(move, Wish(refusal=refusal))
                return False
            arrival = Arrival(incoming.make_folder(self._data_dir), move)
            arrival.write()
            self._arrivals[move.id], self._wish = arrival, Wish()
        arrival = self._arrivals[move.id]
        offer = read_offer(self._client, move)
        if offer is None:
            self._say(move, Wish())
            return False
        if arrival.attempt == offer.attempt:
            self._say(move, Wish(attempt=offer.attempt, is_complete=True))
            return True
        if self._offer is None or self._wish.attempt != offer.attempt:
            self._offer = offer
            arrival.clear(self._data_dir)
            needed = sum(size for _, size in offer.files)
            if shutil.disk_usage(arrival.folder).free < needed:
                refusal = f"the node has less room than the {needed / 1e6:,.0f} MB of the bucket"
                self._say(move, Wish(refusal=refusal))
                return False
            self._wish = _find_next(offer)
        else:
            self._receive(arrival, self._offer)
        if not self._wish.name:
            self._complete(arrival, self._offer)
        self._say(move, self._wish)
        return True

    def _receive(self, arrival: Arrival, offer: Offer) -> None:
        """Write the piece that was requested, if it is there, and choose the next one."""
        wish = self._wish
        size = dict(offer.files)[wish.name]
        most = min(MOST_PIECE_BYTES, size - wish.offset)
        piece = read_piece(self._client, arrival.move, wish, most)
        if not piece:
            return
        path = _find_place(arrival.folder, wish.name)
        with path.open("r+b") as file:
            file.seek(wish.offset)
            file.write(piece)
        end = wish.offset + len(piece)
        if end < size:
            self._wish = Wish(attempt=offer.attempt, name=wish.name, offset=end)
            return
        sync(path)
        self._wish = _find_next(offer, wish.name)

    def _complete(self, arrival: Arrival, offer: Offer) -> None:
        for name, size in offer.files:
            found = _find_place(arrival.folder, name).stat().st_size
            if found != size:
                raise OSError(f"{name} has {found} bytes of {size}")
        arrival.organizations = sorted({name.partition("/")[0] for name, _ in offer.files})
        for each in arrival.organizations:
            sync(arrival.folder / each)
        arrival.attempt = offer.attempt
        arrival.write()
        self._wish = Wish(attempt=offer.attempt, is_complete=True)

    def _say(self, move: Move, wish: Wish) -> None:
        if wish != self._said or read_wish(self._client, move) is None:
            moves.say_wish(self._client, move, wish)
            self._said = wish


def _find_next(offer: Offer, before: str = "") -> Wish:
    """Return the wish for the first piece of the file after ``before``, or of the first file."""
    names = [name for name, size in offer.files if size]
    following = names[names.index(before) + 1 :] if before else names
    return Wish(attempt=offer.attempt, name=following[0] if following else "")


def _find_place(folder: Path, name: str) -> Path:
    """Return the path in ``folder`` of a received file; create folder and file if they are missing.

    ``name`` is "<organisation id>/<file name>", as in ``Offer.files``. Raises OSError."""
    organization_id, _, file_name = name.partition("/")
    path = trace_path_in(folder, organization_id).with_name(file_name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600, exist_ok=True)
    return path
