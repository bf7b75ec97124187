"""The processes of a node other than the proxy's, chosen by its roles and settings."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from manage.supervision.child_environ import make_query_environ, make_web_environ
from manage.supervision.children import Child
from runtime.extension_values import ProcessSpec
from runtime.settings import QUERY_SOCKETS_VARIABLE, Settings, without_secrets
from store.traces.paths import traces_folder

GRACE_S, RECORDER_GRACE_S = 1.0, 3.0

type Environ = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Service:
    """A process with its environment, ``grace_s`` to end in, and the port that serves ``/livez``, if any."""

    child: Child
    environ: Environ
    grace_s: float = GRACE_S
    livez_port: int | None = None


class ServiceMaker:
    """Makes the processes of a node.

    ``parent_fd`` is the pipe by which they notice the supervisor's end, ``stdout_fd`` the output for
    lines on calls, ``board_fd`` the board of the proxy's workers, and ``sockets`` the folder of the
    query processes' sockets. ``is_demo`` is passed to the web process."""

    def __init__(
        self,
        settings: Settings,
        *,
        web_fd: int,
        web_port: int,
        board_fd: int,
        parent_fd: int,
        stdout_fd: int | None,
        sockets: Path,
        is_demo: bool,
    ) -> None:
        self._settings = settings
        self._web_fd, self._web_port, self._board_fd = web_fd, web_port, board_fd
        self._parent_fd = parent_fd
        self._sockets = sockets
        self._stdout_fd = stdout_fd
        self._is_demo = is_demo

    def make(self, environ: Environ, specs: Sequence[ProcessSpec]) -> Sequence[Service]:
        """Return the processes, with those of extensions (``specs``), in the order of stopping them."""
        settings = self._settings
        no_secrets = without_secrets(environ)
        services = []
        if settings.has_pages:
            sockets = {QUERY_SOCKETS_VARIABLE: str(self._sockets)}
            web_environ = make_web_environ(environ) | sockets
            services.append(Service(self._make_web(), web_environ, livez_port=self._web_port))
            services.append(Service(self._make_queries(), make_query_environ(environ)))
        services += [
            self._make_other(each, no_secrets) for each in specs if each.is_before_recorder
        ]
        if "recorder" in settings.node.parts:
            recorder = self._make_child("recorder", "recorder", stdout_fd=self._stdout_fd)
            services.append(Service(recorder, no_secrets, RECORDER_GRACE_S))
        services += [
            self._make_other(each, no_secrets) for each in specs if not each.is_before_recorder
        ]
        return services

    def _make_other(self, spec: ProcessSpec, environ: Environ) -> Service:
        child = self._make_child(spec.name, spec.module)
        return Service(child, {**environ, **spec.variables}, spec.grace_s)

    def _make_web(self) -> Child:
        return self._make_child(
            "web",
            "manage.server",
            f"--fd={self._web_fd}",
            f"--board-fd={self._board_fd}",
            *(["--demo"] if self._is_demo else []),
            fds=[self._web_fd, self._board_fd],
            stdout_fd=self._stdout_fd,
        )

    def _make_queries(self) -> Child:
        traces = traces_folder(self._settings.data_dir.absolute())
        return self._make_child(
            "queries",
            "dashboard.queries",
            f"--traces={traces}",
            f"--sockets={self._sockets}",
            f"--count={self._settings.query_processes + 1}",
        )

    def _make_child(
        self,
        name: str,
        module: str,
        *arguments: str,
        fds: Sequence[int] = (),
        stdout_fd: int | None = None,
    ) -> Child:
        command = [sys.executable, "-P", "-m", module, *arguments]
        return Child(name, command, [*fds, self._parent_fd], stdout_fd)
