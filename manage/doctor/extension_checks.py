"""The check of third-party extensions: of the running service, or loaded each in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator

from manage.doctor.findings import Finding
from manage.third_party.finding import Found, find
from runtime.extension_states import ExtensionState, ExtensionStates
from runtime.safe_text import terminal_line
from runtime.settings import Settings

TRIAL_S = 15.0
_ADVICE = "mend it or remove it, and start the service again"


def check_extensions(settings: Settings, *, is_running: bool) -> Iterator[Finding]:
    """Yield a finding for each third-party extension."""
    found = find(settings.extensions)
    known = {each.name: each for each in ExtensionStates.read(settings.data_dir).extensions}
    for each in found:
        state = known.get(each.name) if is_running else None
        problem = try_loading(each, settings) if state is None else state.problem
        yield _describe(ExtensionState(name=each.name, origin=each.origin, problem=problem))


def try_loading(found: Found, settings: Settings) -> str | None:
    """Return the reason why an extension cannot be loaded, None if it can."""
    command = [sys.executable, "-P", "-m", "manage.third_party", "--try", found.name]
    if settings.extensions is not None:
        command += ["--folder", str(settings.extensions)]
    try:
        result = subprocess.run(  # noqa: S603 - our own program
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TRIAL_S
        )
    except subprocess.TimeoutExpired:
        return f"it is not loaded within {TRIAL_S:g} s"
    if result.returncode == 0:
        return None
    lines = result.stderr.strip().splitlines() or [f"it ended with status {result.returncode}"]
    return lines[-1]


def _describe(state: ExtensionState) -> Finding:
    name = terminal_line(f"{state.name}, of {state.origin}")
    if state.problem is None:
        return Finding("extensions", "ok", name)
    message = terminal_line(f"{name} is left out: {state.problem}")
    return Finding("extensions", "wrong", message, _ADVICE)
