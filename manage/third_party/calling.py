"""Calls of third-party extensions: one that raises, hangs or ends the process is disabled afterwards."""

import faulthandler
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from manage.third_party.finding import Found
from runtime.extension_states import ExtensionState, ExtensionStates

logger = logging.getLogger(__name__)


class Calling:
    """Calls extensions. Each call is noted on disk first, since a process that dies cannot say which it
    was."""

    def __init__(self, data_dir: Path, found: list[Found], patience_s: float) -> None:
        """Disable the extensions that were disabled or being called when the previous process ended.

        Raises OSError."""
        self._data_dir = data_dir
        self._patience_s = patience_s
        before = ExtensionStates.read(data_dir)
        problems = {each.name: each.problem for each in before.extensions}
        if before.calling is not None:
            name, what = before.calling
            problems[name] = (
                f"it did not return from {what} within {patience_s:g} s, or ended the process"
            )
        self._states = {
            each.name: ExtensionState(
                name=each.name, origin=each.origin, problem=problems.get(each.name)
            )
            for each in found
        }
        self._write(None)

    def is_left_out(self, name: str) -> bool:
        return self._states[name].problem is not None

    @contextmanager
    def noted(self, name: str, what: str) -> Iterator[None]:
        """Note on disk that the block calls extension ``name``; end the process if it takes ``patience_s``.

        An exception in the block is logged, and the extension is disabled. Raises OSError."""
        self._write((name, what))
        # A thread of the C library's own ends the process, also where the extension never gives way.
        faulthandler.dump_traceback_later(self._patience_s, exit=True)
        try:
            yield
        except (Exception, SystemExit) as error:
            logger.exception("The extension %s is left out: it failed in %s", name, what)
            problem = f"{type(error).__name__} in {what}: {error}"
            self._states[name] = replace(self._states[name], problem=problem)
        finally:
            faulthandler.cancel_dump_traceback_later()
            self._write(None)

    def _write(self, calling: tuple[str, str] | None) -> None:
        states = ExtensionStates(extensions=list(self._states.values()), calling=calling)
        states.write(self._data_dir)
