"""The commands that install missing libraries, depending on how this program was installed.

An environment of ``uv tool`` has no pip, and packages added by other means are lost at its next
upgrade; so the command for it installs the program again, from its source, with all extras that it
has."""

import json
import re
import shlex
import sys
from collections import defaultdict
from collections.abc import Set
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = "taximeter"
DATASETTE_VERSIONS = ("0.65.5",)  # that the patches of the pages of tables were written for
# The oldest mitmproxy that will do, and the newest that was tried: see CONTRIBUTING.md, Dependencies.
MITMPROXY_OLDEST, MITMPROXY_NEWEST = "12.2.1", "12.3.1"
MITMPROXY_TRIED = f"mitmproxy>={MITMPROXY_OLDEST},<={MITMPROXY_NEWEST}"
_UV_RECEIPT = "uv-receipt.toml"  # in the environment of each tool
_OF_AN_EXTRA = re.compile(r"""([\w.-]++)[^;]*+;.*\bextra *+== *+["']([\w.-]++)["']""", re.ASCII)


def explain_missing(feature: str, extra: str) -> str:
    """Return the error message for a feature that needs the libraries of one of our extras."""
    return (
        f"{feature} needs libraries that are not installed. This command installs them:"
        f" {command_for_extra(extra)}"
    )


def command_for_extra(extra: str) -> str:
    """Return the command that installs the libraries of one of our extras."""
    source = _find_source()
    if _is_uv_tool():
        extras = _find_extras() | {extra}
        return f"uv tool install --force {shlex.quote(_name_source(source, extras))}"
    if source is not None and source.is_dir():
        return f"{_pip()} install -e {shlex.quote(f'{source}[{extra}]')}"
    return f"{_pip()} install {shlex.quote(_name_source(source, {extra}))}"


def command_for(requirement: str) -> str:
    """Return the command that installs a package, given as a requirement such as ``datasette==1.0``."""
    if _is_uv_tool():
        source = _name_source(_find_source(), _find_extras())
        return f"uv tool install --force --with {shlex.quote(requirement)} {shlex.quote(source)}"
    return f"{_pip()} install {shlex.quote(requirement)}"


def _is_uv_tool() -> bool:
    return (Path(sys.prefix) / _UV_RECEIPT).is_file()


def _pip() -> str:
    return f"{shlex.quote(sys.executable)} -m pip"


def _find_source() -> Path | None:
    """Return the path of the checkout or wheel that this program was installed from (PEP 610), or None."""
    try:
        text = distribution(NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    parts = urlsplit(json.loads(text)["url"]) if text else None
    return Path(unquote(parts.path)) if parts and parts.scheme == "file" else None


def _find_extras() -> Set[str]:
    """Return the names of our extras whose libraries are all installed."""
    try:
        requirements = distribution(NAME).requires or ()
    except PackageNotFoundError:
        return frozenset()
    libraries = defaultdict[str, list[str]](list)
    for match in filter(None, map(_OF_AN_EXTRA.match, requirements)):
        libraries[match[2]].append(match[1])
    return {extra for extra, names in libraries.items() if all(map(_is_installed, names))}


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _name_source(source: Path | None, extras: Set[str]) -> str:
    wanted = f"{NAME}[{','.join(sorted(extras))}]" if extras else NAME
    return wanted if source is None else f"{wanted} @ {source.as_uri()}"
