"""The variables by which Claude Code uses an endpoint, and behaves behind it as it does without one.

Behind another base URL Claude Code leaves things out of its calls, and defers no tools before 2.1.305. Two
variables have it treat the base URL as that of its vendor. They are not documented, and with another upstream
they do harm: it gets fields that it does not know, and one that changes with each call, which breaks its
prompt cache.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from manage.claude_code.settings_files import SettingsFile
from runtime.http_proxies import PROXY_VARIABLES, exempt_loopback
from runtime.setting_values import is_loopback

BASE_URL = "ANTHROPIC_BASE_URL"
HINTS = "CLAUDE_CODE_GATEWAY_HINT_HEADERS"
FLAG = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
TOOL_SEARCH = "ENABLE_TOOL_SEARCH"
FIRST_PARTY: Mapping[str, str] = {FLAG: "1", TOOL_SEARCH: "true"}
# With one of these its calls go to another provider, whatever its base URL is.
PROVIDERS = (
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_VERTEX",
)
ENVIRONMENT, OPTION = "the environment", "--settings"
_OFF = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A place that sets variables. ``is_managed``: an administrator's, which nothing beats."""

    name: str
    variables: Mapping[str, str]
    is_managed: bool = False


class Sources:
    """All places that set variables for Claude Code, the strongest first."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    @classmethod
    def make(
        cls,
        environ: Mapping[str, str],
        files: Sequence[SettingsFile],
        given: Mapping[str, str] | None = None,
    ) -> Self:
        """Return the places of a client that is started in this environment. ``given`` are the variables
        of its ``--settings``."""
        found = [
            Source(
                name=str(each.path), variables=each.variables, is_managed=each.scope == "managed"
            )
            for each in files
        ]
        return cls(
            [
                *(each for each in found if each.is_managed),
                Source(name=OPTION, variables=given or {}),
                *(each for each in found if not each.is_managed),
                Source(name=ENVIRONMENT, variables=environ),
            ]
        )

    def find_all(self, name: str) -> list[Source]:
        """Return the places that set a variable, the one that counts first."""
        return [each for each in self._sources if name in each.variables]

    def find(self, name: str) -> str | None:
        """Return the value that counts, None where none sets it."""
        found = self.find_all(name)
        return found[0].variables[name] if found else None

    def is_on(self, name: str) -> bool:
        """Return whether a variable is set to something that means yes."""
        return (self.find(name) or "").strip().lower() not in _OFF


def choose_variables(sources: Sources, url: str, *, as_direct: bool) -> dict[str, str]:
    """Return the variables to set for a client of this base URL, where nobody has set them.

    ``as_direct``: the upstream is the vendor's own, and the client is to make its calls as without us. Of
    the two variables for that, one that somebody has set keeps the other from being set."""
    chosen = {BASE_URL: url}
    if is_loopback(urlsplit(url).hostname or ""):
        # Clients with a proxy ask it for this machine too, which it cannot reach.
        chosen |= exempt_loopback(read_proxies(sources))
    if not sources.find_all(HINTS):
        chosen[HINTS] = "1"
    if as_direct and not any(map(sources.find_all, FIRST_PARTY)):
        chosen |= FIRST_PARTY
    return chosen


def read_proxies(sources: Sources) -> dict[str, str]:
    """Return the variables of HTTP proxies that count."""
    names = [each for name in (*PROXY_VARIABLES, "no_proxy") for each in (name, name.upper())]
    return {name: sources.find(name) or "" for name in names}


def describe_others(sources: Sources, *, is_beaten: bool) -> list[str]:
    """Return lines on what else sets a base URL or another provider.

    ``is_beaten``: the variables of the run are passed by ``--settings`` too, which beats all but managed
    settings."""
    lines = []
    for source in sources.find_all(BASE_URL):
        if source.name == ENVIRONMENT:
            continue  # the run replaces it
        if source.is_managed:
            lines.append(
                f"{source.name} sets {BASE_URL}. These are managed settings, which nothing beats: calls of"
                " Claude Code go there, and not through this run."
            )
        elif is_beaten:
            lines.append(f"{source.name} sets {BASE_URL}; this run does not use it.")
        else:
            lines.append(f"{source.name} sets {BASE_URL}: calls of Claude Code go there.")
    return lines + describe_providers(sources)


def describe_providers(sources: Sources) -> list[str]:
    """Return lines on what sends calls to another provider."""
    return [
        f"{source.name} sets {name}: calls of Claude Code go to that provider, and not through this run."
        for name in PROVIDERS
        if sources.is_on(name)
        for source in sources.find_all(name)[:1]
    ]
