"""The variables that make Claude Code use an endpoint, and make the same calls as without a proxy.

With a base URL that is not the vendor's, Claude Code leaves out parts of its calls, and before 2.1.305
defers no tools. Two undocumented variables make it treat the base URL as the vendor's. With another
upstream they do harm: that upstream gets fields that it does not know, and one field that changes with
each call, which breaks its prompt cache."""

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
    """A place that sets variables. ``is_managed``: set by an administrator, so no other place overrides
    it."""

    name: str
    variables: Mapping[str, str]
    is_managed: bool = False


class Sources:
    """All places that set variables for Claude Code, highest precedence first."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    @classmethod
    def make(
        cls,
        environ: Mapping[str, str],
        files: Sequence[SettingsFile],
        given: Mapping[str, str] | None = None,
    ) -> Self:
        """Return the places of a client that is started in ``environ`` with these settings ``files``.

        ``given`` are the variables of its ``--settings``."""
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
        """Return the places that set a variable; the first is the effective one."""
        return [each for each in self._sources if name in each.variables]

    def find(self, name: str) -> str | None:
        """Return the effective value of a variable, None if it is set nowhere."""
        found = self.find_all(name)
        return found[0].variables[name] if found else None

    def is_on(self, name: str) -> bool:
        """Return whether a variable is set to another value than empty, 0, false, no or off."""
        return (self.find(name) or "").strip().lower() not in _OFF


def choose_variables(sources: Sources, url: str, *, as_direct: bool) -> dict[str, str]:
    """Return the variables to set so that a client uses the base URL ``url``.

    Apart from the base URL and exemptions from HTTP proxies, a variable that is set already is left
    out. ``as_direct``: the upstream is the vendor's own, so two more variables have Claude Code make
    calls as without a proxy; both are left out if either is set already."""
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
    """Return the effective values of the variables for HTTP proxies, empty for those that are not set."""
    names = [each for name in (*PROXY_VARIABLES, "no_proxy") for each in (name, name.upper())]
    return {name: sources.find(name) or "" for name in names}


def describe_others(sources: Sources, *, is_beaten: bool) -> list[str]:
    """Return a line for each other place that sets a base URL, and for each setting of another provider.

    ``is_beaten``: the variables of the run are also passed in ``--settings``, which overrides all but
    managed settings."""
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
    """Return a line for each variable that makes Claude Code send its calls to another provider."""
    return [
        f"{source.name} sets {name}: calls of Claude Code go to that provider, and not through this run."
        for name in PROVIDERS
        if sources.is_on(name)
        for source in sources.find_all(name)[:1]
    ]
