"""The state of an extension on a machine, for ``/healthz`` and ``/metrics``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


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
