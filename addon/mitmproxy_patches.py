"""The list of our patches of mitmproxy.

They are needed because stock mitmproxy would lose, mix up or leak requests, or let one peer take the
event loop or the memory from all others. The replacements are in ``addon/core``.

A version of mitmproxy is accepted if the functions that patches replace are unchanged in it, whatever
its number. If one has changed, the proxy does not start, and says why."""

from collections.abc import Iterable
from typing import Any

from mitmproxy import version
from mitmproxy.proxy import mode_servers, server

from addon.core import connection_reading, direct_reading, reverse_mode
from addon.core.read_policy import ReadPolicy
from addon.core.reverse_mode import BoundSocket
from addon.http1.layer import Http1Layer
from runtime import patches
from runtime.installing import MITMPROXY_TRIED, command_for
from runtime.patches import Patch


class MitmproxyChangedError(Exception):
    """A function that a patch replaces differs from the one that the patch was written for."""


# Nothing takes the place of these, and no mitmproxy will do in which they are others.
NEEDED: tuple[Patch[object], ...] = (
    Patch(
        owner=server.ConnectionHandler,
        name="__init__",
        reason="How long a connection may be silent is an option (a constant of ten minutes up to 12.2.0),"
        " and its layer, transports and watchdog have these names.",
        contract_test="core/test_connection_reading.py::"
        "test_mitmproxy_still_takes_the_longest_silence_from_an_option",
        digest="d3c0f7253517568f",
        replace=None,
    ),
)

CORE: tuple[Patch[ReadPolicy], ...] = (
    Patch(
        owner=server.ConnectionHandler,
        name="drain_writers",
        reason="A connection whose next bytes are there already is read on, before all others.",
        contract_test="core/test_connection_reading.py::test_mitmproxy_still_reads_on_without_giving_way",
        digest="e7d7a0d4bdd7ddf8",
        replace=connection_reading.give_way,
    ),
)

# The rest is for ``python -m addon`` alone; stock ``mitmdump`` does without.

DIRECT_READING: tuple[Patch[None], ...] = (
    Patch(
        owner=server.ConnectionHandler,
        name="handle_connection",
        reason="What has come is dealt with in a later turn of the event loop, by a task that it wakes.",
        contract_test="core/test_direct_reading.py::test_mitmproxy_still_reads_in_a_later_turn",
        digest="2cd24c42884752ac",
        replace=direct_reading.read_directly,
    ),
)

BOUND_SOCKET: tuple[Patch[BoundSocket], ...] = (
    Patch(
        owner=mode_servers.ReverseInstance,
        name="listen",
        reason="A socket of its own would refuse clients while the process restarts, and one of several"
        " processes would take most of the connections.",
        contract_test="core/test_reverse_mode.py::test_mitmproxy_still_binds_a_socket_of_its_own",
        digest="13c0697172a3de67",
        replace=reverse_mode.listen_on,
    ),
)

OF_SERVICE: tuple[Patch[Any], ...] = (*CORE, *DIRECT_READING, *BOUND_SOCKET)


def check(chosen: Iterable[Patch[Any]] | None = None) -> None:
    """Raise MitmproxyChangedError unless the installed mitmproxy is one that the patches were written for.

    ``chosen``: the patches to check, None for those of the service."""
    changed = patches.find_changed((*NEEDED, *(OF_SERVICE if chosen is None else chosen)))
    if changed:
        raise MitmproxyChangedError(
            f"mitmproxy {version.VERSION} differs in what Taximeter depends on ({', '.join(changed)})."
            f" This command installs one that it works with: {command_for(MITMPROXY_TRIED)}"
        )


def patch_core(policy: ReadPolicy) -> None:
    """Apply the patches that this proxy needs with any way of starting mitmproxy.

    Raises MitmproxyChangedError, and then applies none."""
    check(CORE)
    patches.apply(CORE, policy)
    Http1Layer.policy = policy


def read_directly() -> None:
    """Have received data handled in the iteration of the event loop in which it arrives, from now on."""
    patches.apply(DIRECT_READING, None)


def listen_on(bound: BoundSocket) -> None:
    """Make the reverse proxy accept on a socket that is bound already."""
    patches.apply(BOUND_SOCKET, bound)
