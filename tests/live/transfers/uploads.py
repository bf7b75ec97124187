"""Requests with bodies, as they are on the wire, and cut into pieces."""

import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from hypothesis import strategies as st

from runtime.settings import Streaming
from tests.live.transfers.proxy_process import make_head
from tests.upstream import chunk, last_chunk

HELD, STREAMED = "/v1/messages", "/v1/files"
"""Paths whose requests are read whole before they are forwarded, and whose requests pass as they come."""
MODES: tuple[Streaming, ...] = ("live", "buffered")


@dataclass(frozen=True, slots=True)
class Upload:
    """A request. ``chunk_bytes`` is the size of its chunks, None where it says its length."""

    path: str
    body: bytes
    chunk_bytes: int | None = None

    @property
    def is_logged(self) -> bool:
        return self.path == HELD

    def make_head(self, slug: str, *headers: tuple[str, str], version: str = "1.1") -> bytes:
        framing = (
            ("content-length", str(len(self.body)))
            if self.chunk_bytes is None
            else ("transfer-encoding", "chunked")
        )
        return make_head(slug, self.path, framing, *headers, version=version)

    def make_body(self) -> bytes:
        if self.chunk_bytes is None:
            return self.body
        size = self.chunk_bytes
        parts = (self.body[i : i + size] for i in range(0, len(self.body), size))
        return b"".join(chunk(part) for part in parts) + last_chunk()

    def make_wire(self, slug: str) -> bytes:
        return self.make_head(slug) + self.make_body()


@cache
def make_body(size: int) -> bytes:
    """Return a body in which each stretch of four bytes says where it stands."""
    places = array("I", range(0, size + 4, 4))
    if sys.byteorder == "little":
        places.byteswap()
    return places.tobytes()[:size]


def cut(data: bytes, places: Iterable[int]) -> Sequence[bytes]:
    """Return the data cut at these places, which may lie beyond its end."""
    inner = sorted({place for place in places if 0 < place < len(data)})
    return [data[start:end] for start, end in pairwise([0, *inner, len(data)])]


def places_of_interest(data: bytes) -> list[int]:
    """Return the places to cut a message at: all from the end of its head on, and a few within the head,
    of which nothing is read before that end."""
    end = data.index(b"\r\n\r\n")
    return [*range(1, end, 9), *range(end, len(data))]


def uploads(*, sizes: Sequence[int] = (0, 1, 300, 70_000)) -> st.SearchStrategy[Upload]:
    return st.builds(
        Upload,
        st.sampled_from([HELD, STREAMED]),
        st.sampled_from(sizes).map(make_body),
        st.sampled_from([None, 1000, 30_000]),
    )


def places(data_bytes: int = 70_500) -> st.SearchStrategy[list[int]]:
    """Places to cut at: close together in the head and its end, or anywhere."""
    near = st.integers(1, 400)
    return st.lists(near | st.integers(1, data_bytes), max_size=8)
