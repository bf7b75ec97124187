"""``python -m bench.management``: the time of lists and of the proxy's lookup in large services.

Two services side by side: one with 10 proxy endpoints and 10 service API keys of one person, one with
10,000 of each, and as many endpoints deleted. The same is asked of both in turns, so that both feel
whatever else the machine does; what is printed of the lookup is the ratio of neighbours.

Pages are timed at the front door on one connection that stays open: through the proxy, the API and
back. A page of 20 and one of 100, from the start, the middle and the end of each list.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from statistics import median

from bench.load import HOST, BenchError, Neighbours, percentile, taximeter
from store.control import api_keys, endpoints
from store.control.database import ControlDatabase, SlugDirectory
from store.control.management import Management
from store.control.people import Caller

FEW, MANY = 10, 10_000
PAGE_TARGET_MS, LOOKUP_TARGET = 20.0, 1.25
ROUNDS, LOOKUPS, PAGES = 200, 100, 40
PATHS = ("/api/proxy-endpoints", "/api/api-keys")
LIMITS = (20, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One service that is measured, with the caller and the slugs in its data."""

    folder: Path
    raw_key: str
    slugs: Sequence[str]

    @property
    def control_path(self) -> Path:
        return self.folder / "data" / "control.db"


def fill(folder: Path, count: int) -> Place:
    """Create ``count`` live endpoints, as many deleted ones, and as many keys."""
    with ControlDatabase(folder / "data" / "control.db") as control:
        control.set_up()
        management = Management(control, folder / "data")
        caller = management.local_caller()
        slugs = [_make(control, caller, number) for number in range(count)]
        _, raw_key = management.create_key(caller, "bench")
    return Place(folder=folder, raw_key=raw_key, slugs=slugs)


def _make(control: ControlDatabase, caller: Caller, number: int) -> str:
    with control.transaction() as db:
        gone = endpoints.create(db, caller.organization_id, f"gone {number}")
        endpoints.delete(db, caller.organization_id, gone.id)
        api_keys.create(db, caller.organization_id, caller.user_id, f"key {number}")
        return endpoints.create(db, caller.organization_id, f"endpoint {number}").slug


def measure_lookups(few: Place, many: Place) -> None:
    """Time ``SlugDirectory.find``, which the proxy calls for each request.

    Once for slugs that are requested again and again, as in real traffic, and once for slugs drawn
    at random from all."""
    with (
        closing(SlugDirectory(few.control_path)) as small,
        closing(SlugDirectory(many.control_path)) as large,
    ):
        for name, slugs in (
            ("lookup of the same 10 slugs", many.slugs[:: MANY // FEW]),
            ("lookup of any slug", many.slugs),
        ):
            dice = Random(1)  # noqa: S311 - no secret
            pairs = [
                (_time_lookups(small, few.slugs, dice), _time_lookups(large, slugs, dice))
                for _ in range(ROUNDS)
            ]
            _print_lookups(name, pairs)


def _print_lookups(name: str, pairs: Sequence[tuple[float, float]]) -> None:
    ratio = median(large_s / small_s for small_s, large_s in pairs)
    few_us, many_us = (median(pair[at] for pair in pairs) / LOOKUPS * 1e6 for at in (0, 1))
    print(f"  {name:34} {few_us:6.1f} us    {many_us:6.1f} us    ", end="")
    print(f"x{ratio:.2f}   target <= x{LOOKUP_TARGET:g}: {_verdict(ratio <= LOOKUP_TARGET)}")


def _time_lookups(directory: SlugDirectory, slugs: Sequence[str], dice: Random) -> float:
    wanted = [dice.choice(slugs) for _ in range(LOOKUPS)]
    started_s = time.perf_counter()
    for slug in wanted:
        if directory.find(slug) is None:
            raise BenchError(f"{slug} was not found")
    return time.perf_counter() - started_s


class Lists:
    """The lists of one service, requested by one person on one connection."""

    def __init__(self, port: int, raw_key: str) -> None:
        self._connection = HTTPConnection(HOST, port, timeout=10)
        self._headers = {"authorization": f"Bearer {raw_key}"}

    def close(self) -> None:
        self._connection.close()

    def time_page(self, path: str, limit: int, cursor: str | None) -> tuple[float, str | None]:
        """Return the milliseconds that a page took, and the cursor of the next page."""
        target = f"{path}?limit={limit}" + (f"&cursor={cursor}" if cursor else "")
        started_s = time.perf_counter()
        self._connection.request("GET", target, headers=self._headers)
        response = self._connection.getresponse()
        body = response.read()
        took_ms = (time.perf_counter() - started_s) * 1000
        if response.status != 200:
            raise BenchError(f"{target} responded with {response.status}")
        next_cursor: str | None = json.loads(body)["nextCursor"]
        return took_ms, next_cursor

    def find_cursors(self, path: str, limit: int) -> list[str | None]:
        """Return the cursors of the first page, of one in the middle, and of the last."""
        cursors: list[str | None] = [None]
        while (cursor := self.time_page(path, limit, cursors[-1])[1]) is not None:
            cursors.append(cursor)
        return [cursors[0], cursors[len(cursors) // 2], cursors[-1]]


def measure_pages(few: Lists, many: Lists) -> None:
    for path in PATHS:
        for limit in LIMITS:
            cursors = {lists: lists.find_cursors(path, limit) for lists in (few, many)}
            times_ms: dict[Lists, list[float]] = {few: [], many: []}
            for number in range(PAGES * 3):
                for lists, times in times_ms.items():
                    cursor = cursors[lists][number % 3]
                    times.append(lists.time_page(path, limit, cursor)[0])
            _print_pages(f"{path}?limit={limit}", times_ms[few], times_ms[many])


def _print_pages(name: str, few_ms: Sequence[float], many_ms: Sequence[float]) -> None:
    worst_ms = percentile(many_ms, 99)
    print(f"  {name:34} {median(few_ms):6.1f} ms    {median(many_ms):6.1f} ms    ", end="")
    print(f"x{median(many_ms) / median(few_ms):.2f}   p99 {worst_ms:.1f} ms", end="")
    print(f"   target <= {PAGE_TARGET_MS:g} ms: {_verdict(worst_ms <= PAGE_TARGET_MS)}")


def _verdict(met: bool) -> str:
    return "met" if met else "NOT MET"


def run(parent: Path | None) -> None:
    with ExitStack() as stack:
        folders = [
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="taximeter-", dir=parent)))
            for _ in range(2)
        ]
        few, many = fill(folders[0], FEW), fill(folders[1], MANY)
        print(f"  {'':34} {FEW:6,} there {MANY:6,} there")
        measure_lookups(few, many)
        services = [stack.enter_context(taximeter(each.folder, 9, 1))[0] for each in (few, many)]
        lists = [
            stack.enter_context(closing(Lists(service.port, place.raw_key)))
            for service, place in zip(services, (few, many), strict=True)
        ]
        neighbours = Neighbours()
        measure_pages(*lists)
        print(f"  others took {neighbours.share():.0%} of the machine meanwhile")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.management", description=__doc__)
    parser.add_argument(
        "--dir", type=Path, help="where the data goes meanwhile (default: the temporary directory)"
    )
    try:
        run(parser.parse_args().dir)
    except BenchError as error:
        sys.exit(f"bench: {error}")


if __name__ == "__main__":
    main()
