"""The values that hooks of extensions return: processes, files, states and links of theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """The process ``python -m module``, which ``name`` stands for in logs and in ``/healthz``.

    It gets the service's environment without secrets, and ``variables`` besides. Told to stop by SIGTERM, it
    has ``grace_s`` to end; ``is_before_recorder``: that is before the recorder is told so, otherwise after.
    It announces that it is ready by ``runtime.readiness``, and ends with its parent (``parent_watch``)."""

    name: str
    module: str
    variables: Mapping[str, str] = field(default_factory=dict)
    grace_s: float = 1.0
    is_before_recorder: bool = False


type Treatment = Literal["copied as a database", "copied", "copied first", "left out"]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A rule for the files whose path in the data directory matches a pattern, part by part.

    ``migrations`` names the module that has those of a database, which a restore checks."""

    pattern: str
    treatment: Treatment
    about: str
    migrations: str | None = None

    @property
    def is_copied(self) -> bool:
        """Return whether a backup has these files."""
        return self.treatment != "left out"


class Gauge(NamedTuple):
    """A figure that goes up and down, with its name and its help in Prometheus' format."""

    name: str
    help: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The state of what an extension does. Each of the ``reasons`` says why it is not well.

    ``document`` is added to that of ``/healthz``, and ``gauges`` to the metrics of this machine."""

    reasons: Sequence[str] = ()
    document: Mapping[str, Any] = field(default_factory=dict)
    gauges: Sequence[Gauge] = ()


type Place = Literal["home", "settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLink:
    """A link to a page, at its place among those of another page. Members see none that ``is_for_owners``."""

    place: Place
    address: str
    words: str
    is_for_owners: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallNotice:
    """A warning about calls, with a link to the page that says more."""

    text: str
    address: str
    words: str
