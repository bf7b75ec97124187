"""A setting: an environment variable, which is also an option of ``taximeter up``."""

from collections.abc import Callable
from dataclasses import dataclass

PREFIX = "TAXIMETER_"
# For the help of a setting that is a secret.
PREFER_VARIABLE = "Better as a variable than as an option, which everybody on the machine can read."


class SettingsError(Exception):
    """A setting is not valid. The message names the variable and says what to write."""


@dataclass(frozen=True, slots=True)
class Setting[Value]:
    """A row of the table of settings.

    ``default`` is the default as text; ``parse`` turns text into the value, or raises ValueError with
    what to write instead. A secret is never quoted; ``redact`` returns the part of its text that may
    be written down, and passed to processes that do not need the secret; without ``redact`` that is
    nothing. A setting that is for the web process is not passed to other processes."""

    name: str
    default: str
    parse: Callable[[str], Value]
    help: str
    is_secret: bool = False
    is_for_web: bool = False
    redact: Callable[[str], str] | None = None

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")
