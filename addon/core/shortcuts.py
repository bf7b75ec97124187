"""Replacements for functions of mitmproxy that do the same with less work.

They are for ``python -m addon`` alone, and change nothing of what is sent, refused or given to a hook.
"""

import itertools
import time
from collections.abc import Callable
from functools import lru_cache

from mitmproxy import connection, flow, options
from mitmproxy.proxy import commands, context

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


type MakeFlow = Callable[..., None]


def make_flow_without_uuid(_original: MakeFlow, _given: None) -> MakeFlow:
    """Return a ``Flow.__init__`` that numbers flows: nobody asks for their ids."""
    numbers = itertools.count(1)

    def make(
        self: flow.Flow,
        client_conn: connection.Client,
        server_conn: connection.Server,
        live: bool = False,
    ) -> None:
        self.id = str(next(numbers))
        self.client_conn, self.server_conn = client_conn, server_conn
        self.live = live
        self.timestamp_created = time.time()
        self.intercepted = False
        self._resume_event = self._backup = None
        self.marked = self.comment = ""
        self.is_replay = None
        self.metadata = {}

    return make


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


type MakeHook = Callable[..., commands.StartHook]


def make_without_asking(_original: MakeHook, _given: None) -> MakeHook:
    """Return a ``StartHook.__new__`` that does not ask each time whether the class is one of hooks."""

    def make(kind: type[commands.StartHook], *_: object, **__: object) -> commands.StartHook:
        return object.__new__(kind)

    return make


def fix_options(opts: options.Options) -> None:
    """Let each option be read as it is now from now on. mitmproxy makes a deep copy for each reader, of
    which there are ten for a small call. Lists go on to be copied."""
    for name in opts.keys():  # noqa: SIM118 - not a mapping
        value = getattr(opts, name)
        if value is None or isinstance(value, str | int | float):
            opts.__dict__[name] = value
