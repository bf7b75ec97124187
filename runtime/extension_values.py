"""The values that hooks of extensions return: processes, files, states and links."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """The process ``python -m module``, called ``name`` in logs and in ``/healthz``.

    It gets the service's environment without secrets, and ``variables``. When told to stop by SIGTERM,
    it has ``grace_s`` to end; ``is_before_recorder``: it is stopped before the recorder, otherwise
    after. It announces that it is ready by ``runtime.readiness``, and ends with its parent
    (``parent_watch``)."""

    name: str
    module: str
    variables: Mapping[str, str] = field(default_factory=dict)
    grace_s: float = 1.0
    is_before_recorder: bool = False


type Treatment = Literal["copied as a database", "copied", "copied first", "left out"]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A rule for files whose path in the data directory matches ``pattern``, part by part.

    ``migrations`` names the module with the migrations of a database, which a restore checks."""

    pattern: str
    treatment: Treatment
    about: str
    migrations: str | None = None

    @property
    def is_copied(self) -> bool:
        """Return whether a backup contains these files."""
        return self.treatment != "left out"


class Gauge(NamedTuple):
    """A metric that can go up and down, with its name and its help text for Prometheus."""

    name: str
    help: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The state of an extension. Each of ``reasons`` is a problem; it is healthy if there are none.

    ``document`` is added to that of ``/healthz``, and ``gauges`` to the metrics of this machine."""

    reasons: Sequence[str] = ()
    document: Mapping[str, Any] = field(default_factory=dict)
    gauges: Sequence[Gauge] = ()


type Place = Literal["home", "settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLink:
    """A link to a page, at its place among links of another page. Members do not see one that
    ``is_for_owners``."""

    place: Place
    address: str
    words: str
    is_for_owners: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallNotice:
    """A warning about calls, with a link to a page with details."""

    text: str
    address: str
    words: str
