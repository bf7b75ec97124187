"""The list of our patches of mitmproxy.

The patches are there because the stock core would lose, mix up or leak requests, or let one peer take
the event loop or the memory from all others. What they are replaced with is in ``addon/core``.

One whose original has changed is not applied: the proxy does not start, and says why.
"""

from collections.abc import Iterable
from typing import Any

from mitmproxy import addonmanager, version
from mitmproxy.addons import next_layer
from mitmproxy.net.http import http1
from mitmproxy.proxy import mode_servers, server
from mitmproxy.proxy.layers.http import HttpStream, _http1

from addon.core import (
    body_reading,
    connection_reading,
    request_reading,
    response_reading,
    reverse_mode,
)
from addon.core.dispatch_table import DispatchTable
from addon.core.read_policy import ReadPolicy
from addon.core.reverse_mode import BoundSocket
from addon.mitmproxy_shortcuts import INLINE_HOOKS, SHORTCUTS
from runtime import patches
from runtime.installing import command_for
from runtime.patches import Patch

# What the digests were taken of, the first and the last of them: ``pyproject.toml`` asks for these. With
# another one that changed nothing here the proxy starts too.
KNOWN_VERSIONS = ("12.2.3", "12.3.0", "12.3.1")
REQUIREMENT = f"mitmproxy>={KNOWN_VERSIONS[0]},<={KNOWN_VERSIONS[-1]}"


class MitmproxyChangedError(Exception):
    """A function that a patch replaces is not the one that the patch was written for."""


# Those by which responses are read right, and made where there is none. The forward proxy of a run, which
# has one client, needs no others.
RESPONSES: tuple[Patch[object], ...] = (
    Patch(
        owner=_http1.Http1Client,
        name="read_headers",
        reason="An interim (1xx) response shifts every later response on its connection by one"
        " request, and heads, which anybody may send without end, are held without bound.",
        contract_test="test_response_reading.py::"
        "test_the_core_still_takes_an_interim_response_for_the_response",
        digest="deee23a79fe992b4",
        replace=response_reading.skip_interim_responses,
    ),
    Patch(
        owner=_http1,
        name="make_body_reader",
        reason="Each chunk is an event of its own, so small chunks take the event loop for seconds,"
        " and trailers crash the flow.",
        contract_test="test_response_reading.py::test_the_core_still_makes_a_piece_of_every_chunk",
        digest="9b076acda459637b",
        replace=response_reading.read_chunks_together,
    ),
    Patch(
        owner=_http1,
        name="make_error_response",
        reason="mitmproxy refuses requests with a page of HTML that quotes them.",
        contract_test="test_request_reading.py::test_the_core_still_responds_to_faults_with_a_page",
        digest="03ce75ab62e8e78b",
        replace=request_reading.respond_in_json,
    ),
)

CORE: tuple[Patch[ReadPolicy], ...] = (
    *RESPONSES,
    Patch(
        owner=http1,
        name="read_response_head",
        reason="A head with control characters, folded lines or a status such as 20 is passed on,"
        " and clients differ in what they make of it.",
        contract_test="test_response_reading.py::"
        "test_the_core_still_takes_a_head_that_is_not_valid",
        digest="7f1f014abc5eeac1",
        replace=response_reading.refuse_invalid_heads,
    ),
    Patch(
        owner=http1,
        name="read_request_head",
        reason="Control characters are stripped from a head before anybody can refuse them, and a first"
        " line is taken with any blanks, any version, and a method in small letters, which stay.",
        contract_test="test_request_reading.py::"
        "test_the_core_still_strips_control_characters_from_a_request_head",
        digest="d7a54f7078584448",
        replace=request_reading.refuse_ambiguous_heads,
    ),
    Patch(
        owner=_http1.Http1Server,
        name="read_headers",
        reason="All requests that one read brought are dealt with at once, and a head is held"
        " without bound.",
        contract_test="test_request_reading.py::"
        "test_the_core_still_deals_with_all_requests_of_a_read_at_once",
        digest="496f9de6da56eb2d",
        replace=request_reading.take_turns,
    ),
    Patch(
        owner=_http1.Http1Connection,
        name="wait",
        reason="What a client sends before its response is held without bound.",
        contract_test="test_request_reading.py::"
        "test_the_core_still_keeps_what_comes_early_without_end",
        digest="dabd004e93408f26",
        replace=request_reading.bound_early_data,
    ),
    Patch(
        owner=_http1.Http1Connection,
        name="read_body",
        reason="The body of a refused request is parsed to its end, and a client whose chunks are not"
        " valid gets no response.",
        contract_test="test_body_reading.py::"
        "test_the_core_still_closes_without_a_word_on_a_bad_chunk",
        digest="d821888c1e1512b3",
        replace=body_reading.read_in_turn,
    ),
    Patch(
        owner=server.ConnectionHandler,
        name="drain_writers",
        reason="A connection whose next bytes are there already is read on, before all others.",
        contract_test="test_connection_reading.py::test_the_core_still_reads_on_without_giving_way",
        digest="e7d7a0d4bdd7ddf8",
        replace=connection_reading.give_way,
    ),
    Patch(
        owner=HttpStream,
        name="check_body_size",
        reason="The limit to what is held of request bodies is one for each body and none for all.",
        contract_test="test_connection_reading.py::test_the_core_still_holds_bodies_without_a_limit_to_all_of_them",
        digest="ae602ef9fc48ca89",
        replace=connection_reading.bound_held_bodies,
    ),
    Patch(
        owner=HttpStream,
        name="handle_protocol_error",
        reason="The body of a client that left is kept until a full garbage collection.",
        contract_test="test_connection_reading.py::"
        "test_the_core_still_keeps_the_body_of_a_client_that_left",
        digest="0dbef15c4f5bfb6c",
        replace=connection_reading.give_bodies_back,
    ),
)

# The rest is for ``python -m addon`` alone; stock ``mitmdump`` does without.

BOUND_SOCKET: tuple[Patch[BoundSocket], ...] = (
    Patch(
        owner=mode_servers.ReverseInstance,
        name="listen",
        reason="A socket of its own would refuse clients while the process restarts, and one of several"
        " processes would take most of the connections.",
        contract_test="test_reverse_mode.py::test_the_core_still_binds_a_socket_of_its_own",
        digest="13c0697172a3de67",
        replace=reverse_mode.listen_on,
    ),
)

OVERRIDDEN: tuple[Patch[Any], ...] = (
    *(
        Patch(
            owner=addonmanager.AddonManager,
            name=name,
            reason="Every event's hook is looked for in every addon, and `update` after it, which is"
            " half of the time that a small call takes.",
            contract_test="test_dispatch_table.py::test_the_stock_manager_still_asks_every_addon",
            digest=digest,
            replace=None,  # core.dispatch_table.DispatchTable
        )
        for name, digest in (
            ("register", "42f09666acd54c93"),
            ("remove", "ac83e16b537cc208"),
            ("trigger_event", "58789e378391cb37"),
            ("handle_lifecycle", "f0338e4107ec4a37"),
        )
    ),
    Patch(
        owner=next_layer.NextLayer,
        name="_next_layer",
        reason="TLS is looked for in what a client sends, and all of that is logged.",
        contract_test="test_stock_addons.py::test_the_stock_addon_still_looks_for_tls",
        digest="3eec46d8373f6abe",
        replace=None,  # core.stock_addons.PlainHttpNextLayer
    ),
)

EVERY: tuple[Patch[Any], ...] = (*CORE, *INLINE_HOOKS, *SHORTCUTS, *BOUND_SOCKET, *OVERRIDDEN)


def check(chosen: Iterable[Patch[Any]] | None = None) -> None:
    """Raise MitmproxyChangedError unless mitmproxy is one that the patches, or all, were written for."""
    changed = patches.find_changed(EVERY if chosen is None else chosen)
    if changed:
        raise MitmproxyChangedError(
            f"mitmproxy {version.VERSION} has changed what Taximeter depends on ({', '.join(changed)})."
            f" This command installs one that it works with: {command_for(REQUIREMENT)}"
        )


def patch_core(policy: ReadPolicy) -> None:
    """Apply the patches that any mitmproxy needs which serves this proxy.

    Raises MitmproxyChangedError, and then applies none."""
    check(CORE)
    patches.apply(CORE, policy)


def patch_responses() -> None:
    """Apply those that are about responses, and bound nothing: a forward proxy has one client.

    Raises MitmproxyChangedError, and then applies none."""
    check(RESPONSES)
    patches.apply(RESPONSES, None)


def run_hooks_inline(table: DispatchTable) -> None:
    """Put ``InlineHooks`` above every connection of the reverse proxy from now on."""
    patches.apply(INLINE_HOOKS, table)


def take_shortcuts() -> None:
    """Let mitmproxy do the same with less work from now on."""
    patches.apply(SHORTCUTS, None)


def listen_on(bound: BoundSocket) -> None:
    """Make the reverse proxy serve a socket that is bound already."""
    patches.apply(BOUND_SOCKET, bound)
