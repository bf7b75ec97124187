"""A process of an extension, as the supervisor starts it beside those of the service."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
