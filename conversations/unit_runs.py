"""Runs of units, with the digests, cache markers and sums of all of them.

The next request of a conversation begins with nearly the same units, so a run is cut at the first
difference and continued there, instead of going through all units once more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from conversations.unit import Unit
from wire.block import CacheTtl

DIGEST_BYTES, ORDER_BYTES = 8, 4


class CachedTo(NamedTuple):
    """A cache marker: the place of its unit, its lifetime, and the size in bytes of the prefix it ends."""

    place: int
    ttl: CacheTtl
    size: int


class Sums(NamedTuple):
    """The sums over a run: units, cache markers, bytes, and images. ``cites``: some unit has citations on."""

    units: int = 0
    markers: int = 0
    size: int = 0
    images: int = 0
    cites: bool = False


NO_SUMS = Sums()


@dataclass(slots=True)  # not frozen: made for each call
class UnitRun:
    """A sequence of units, as their concatenated digests, their markers and their sums."""

    digests: bytes = b""
    orders: bytes = b""
    markers: tuple[CachedTo, ...] = ()
    sums: Sums = NO_SUMS

    def add(self, units: Sequence[Unit]) -> "UnitRun":
        """Return the run with ``units`` appended."""
        count, _, size, images, cites = self.sums
        digests, orders = [self.digests], [self.orders]
        markers: list[CachedTo] = []
        for place, unit in enumerate(units, count):
            digests.append(unit.digest)
            orders.append(unit.order)
            size += unit.size
            if unit.marker is not None:
                markers.append(CachedTo(place, unit.marker, size))
            if unit.images:
                images += unit.images
            if unit.cites:
                cites = True
        all_markers = (*self.markers, *markers)
        sums = Sums(count + len(units), len(all_markers), size, images, cites)
        return UnitRun(b"".join(digests), b"".join(orders), all_markers, sums)

    def join(self, other: "UnitRun") -> "UnitRun":
        """Return the run with another one appended."""
        count, _, size, images, cites = self.sums
        markers = self.markers + tuple(
            CachedTo(count + place, ttl, size + end) for place, ttl, end in other.markers
        )
        return UnitRun(
            self.digests + other.digests,
            self.orders + other.orders,
            markers,
            Sums(
                count + other.sums.units,
                len(markers),
                size + other.sums.size,
                images + other.sums.images,
                cites or other.sums.cites,
            ),
        )

    def without(self, place: int, unit: Unit) -> "UnitRun":
        """Return the run without the text unit ``unit`` at ``place``."""
        count, _, size, images, cites = self.sums
        markers = tuple(
            CachedTo(each - 1, ttl, end - unit.size) if each > place else CachedTo(each, ttl, end)
            for each, ttl, end in self.markers
            if each != place
        )
        return UnitRun(
            _cut_out(self.digests, place, DIGEST_BYTES),
            _cut_out(self.orders, place, ORDER_BYTES),
            markers,
            Sums(count - 1, len(markers), size - unit.size, images, cites),
        )

    def without_markers(self) -> "UnitRun":
        """Return the run without cache markers, since a later request sets its own."""
        return UnitRun(self.digests, self.orders, (), self.sums._replace(markers=0))

    def cut(self, sums: Sums) -> "UnitRun":
        """Return the beginning of the run whose sums are ``sums``."""
        return UnitRun(
            self.digests[: DIGEST_BYTES * sums.units],
            self.orders[: ORDER_BYTES * sums.units],
            self.markers[: sums.markers],
            sums,
        )


def _cut_out(joined: bytes, place: int, size: int) -> bytes:
    return joined[: place * size] + joined[(place + 1) * size :]


EMPTY = UnitRun()
