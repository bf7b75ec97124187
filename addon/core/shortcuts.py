"""Replacements for functions of mitmproxy that do the same with less work.

They are for ``python -m addon`` alone, and change nothing of what is sent, refused or given to a hook.
"""

from collections.abc import Callable
from functools import lru_cache

from mitmproxy import connection, options
from mitmproxy.proxy import context

# An authority is what a Host header names. Clients name the same few.
MOST_AUTHORITIES, MOST_REMEMBERED_CHARS = 256, 256

type Fork = Callable[[context.Context], context.Context]
type ParseAuthority = Callable[[str | bytes, bool], tuple[str, int | None]]


def remember_authorities(original: ParseAuthority, _given: None) -> ParseAuthority:
    """Return a ``parse_authority`` that parses the few that clients name once."""
    recall = lru_cache(MOST_AUTHORITIES)(original)

    def parse_authority(authority: str | bytes, check: bool) -> tuple[str, int | None]:
        parse = recall if len(authority) <= MOST_REMEMBERED_CHARS else original
        return parse(authority, check)

    return parse_authority


type Hash = Callable[[connection.Connection], int]


def hash_by_identity(_original: Hash, _given: None) -> Hash:
    """Return the hash of any object. No connection of a running proxy is a copy of another."""
    return object.__hash__


def fork_without_server(_original: Fork, _given: None) -> Fork:
    """Return a ``Context.fork`` that does not make a server connection, with an id, to drop it."""

    def fork(self: context.Context) -> context.Context:
        forked = object.__new__(context.Context)
        forked.client, forked.options, forked.server = self.client, self.options, self.server
        forked.layers = self.layers.copy()
        return forked

    return fork


def fix_options(opts: options.Options) -> None:
    """Let each option be read as it is now from now on. mitmproxy makes a deep copy for each reader, of
    which there are ten for a small call. Lists go on to be copied."""
    for name in opts.keys():  # noqa: SIM118 - not a mapping
        value = getattr(opts, name)
        if value is None or isinstance(value, str | int | float):
            opts.__dict__[name] = value
