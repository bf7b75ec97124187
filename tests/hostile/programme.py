"""The long form of the attacks: a plugin of pytest that runs neighbours beside each, and reports."""

import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.hostile.neighbours import AttackedUpstream, Neighbours, Waits, find_percentile
from tests.live.service import Service

TARGET_MS = 50.0
# Fewer times than these have no meaningful 99th percentile.
ENOUGH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """The figures of one case. A p99 is None where too few neighbours called meanwhile, or visited pages.

    ``control_…`` are those of others who did the same at the same time on a service that is not attacked."""

    name: str
    harm: str | None
    seconds: float
    calls: int
    failed: int
    p50_ms: float
    p99_ms: float | None
    control_p99_ms: float | None
    pages_p99_ms: float | None
    control_pages_p99_ms: float | None
    worst_ms: float
    peak_rss_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The figures of all cases. Of the calls of neighbours that got their response, ``lost`` are not
    recorded and ``double`` are twice."""

    attacks: Sequence[Attack]
    calls: int
    lost: Sequence[str]
    double: Sequence[str]

    @property
    def harmful(self) -> int:
        return sum(attack.harm is not None for attack in self.attacks)

    @property
    def slow(self) -> int:
        return sum(
            max(attack.p99_ms or 0, attack.pages_p99_ms or 0) > TARGET_MS for attack in self.attacks
        )

    def write(self, path: Path) -> None:
        document = {
            "machine": platform.platform(),
            "cases": len(self.attacks),
            "harmful": self.harmful,
            "calls": self.calls,
            "lost": len(self.lost),
            "double": len(self.double),
            "lost_or_double": [*self.lost, *self.double],
            "p99_target_ms": TARGET_MS,
            "above_target": self.slow,
            "attacks": [asdict(attack) for attack in self.attacks],
        }
        path.write_text(json.dumps(document, indent=2) + "\n")

    def __str__(self) -> str:
        lines = [
            f"{'case':72} {'calls':>6} {'failed':>6} {'p50':>6} {'p99':>7} {'control':>7}"
            f" {'pages':>7} {'control':>7} {'worst':>7} {'RSS':>6}"
        ]
        for each in self.attacks:
            waits = (
                *(each.p99_ms, each.control_p99_ms),
                *(each.pages_p99_ms, each.control_pages_p99_ms),
            )
            cells = " ".join(f"{'-' if ms is None else f'{ms:.1f}':>7}" for ms in waits)
            lines.append(
                f"{each.name[:72]:72} {each.calls:6} {each.failed:6} {each.p50_ms:6.1f} {cells}"
                f" {each.worst_ms:7.1f} {each.peak_rss_mb:6.0f}"
            )
            if each.harm is not None:
                lines.append(f"    HARMFUL: {each.harm}")
        lines += [f"    LOST OR DOUBLE: {each}" for each in (*self.lost, *self.double)]
        lines.append(
            f"{len(self.attacks)} cases, harmful {self.harmful}; {self.calls} calls of others, lost"
            f" {len(self.lost)}, double {len(self.double)}; p99 above {TARGET_MS:g} ms in {self.slow} cases"
        )
        return "\n".join(lines)


def _find_p99(times_ms: Sequence[float]) -> float | None:
    return round(find_percentile(times_ms, 99), 2) if len(times_ms) >= ENOUGH else None


class Programme:
    """Runs neighbours beside every test that has a service, and collects what came of it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.attacks: list[Attack] = []
        self._waits: tuple[Waits, Waits] | None = None
        self._lost: list[str] = []
        self._double: list[str] = []
        self._calls = 0

    @pytest.fixture(scope="module")
    def neighbours(self, service: Service) -> Iterator[Neighbours]:
        """The others, who use the service that is attacked."""
        neighbours = Neighbours(service)
        yield neighbours
        lost, double = neighbours.find_lost()
        self._lost += lost
        self._double += double
        self._calls += len(neighbours.answered)

    @pytest.fixture(scope="session")
    def control(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbours]:
        """Others who do the same on a service that nobody attacks."""
        folder = tmp_path_factory.mktemp("control")
        with (
            AttackedUpstream() as upstream,
            Service(folder, upstream.url, TRUSTED_PROXIES="127.0.0.1") as service,
        ):
            yield Neighbours(service)

    @pytest.fixture
    def until(self) -> Callable[[], bool]:
        """Return a function that says whether the time of a case is over."""
        end_s = time.monotonic() + self.seconds
        return lambda: time.monotonic() >= end_s

    @pytest.fixture(autouse=True)
    def beside(self, request: pytest.FixtureRequest) -> Iterator[None]:
        """Let neighbours call during a test."""
        self._waits = None
        if "service" not in request.fixturenames:
            yield
            return
        neighbours: Neighbours = request.getfixturevalue("neighbours")
        control: Neighbours = request.getfixturevalue("control")
        neighbours.start(request.node.name)
        control.start(request.node.name)
        yield
        self._waits = neighbours.stop(), control.stop()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what came of a test, once neighbours have stopped."""
        if report.when == "call":
            self._harm = str(report.longrepr).splitlines()[-1] if report.failed else None
            self._seconds = report.duration
        elif report.when == "teardown" and self._waits is not None:
            waits, control = self._waits
            self.attacks.append(
                Attack(
                    name=report.nodeid.rpartition("::")[2].removeprefix("test_").replace("_", " "),
                    harm=self._harm or (str(report.longrepr) if report.failed else None),
                    seconds=round(self._seconds, 2),
                    calls=len(waits.times_ms),
                    failed=waits.failed,
                    p50_ms=round(find_percentile(waits.times_ms, 50), 2),
                    p99_ms=_find_p99(waits.times_ms),
                    control_p99_ms=_find_p99(control.times_ms),
                    pages_p99_ms=_find_p99(waits.pages_ms),
                    control_pages_p99_ms=_find_p99(control.pages_ms),
                    worst_ms=round(max(waits.times_ms, default=0.0), 2),
                    peak_rss_mb=round(waits.peak_rss_mb, 1),
                )
            )

    def report(self) -> Report:
        """Return the figures, once all tests have run."""
        return Report(attacks=self.attacks, calls=self._calls, lost=self._lost, double=self._double)
