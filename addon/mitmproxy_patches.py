"""The list of our patches of mitmproxy.

The patches are there because the stock core would lose, mix up or leak requests, or let one peer take
the event loop or the memory from all others. What they are replaced with is in ``addon/core``.
"""

from typing import Any

from mitmproxy import addonmanager, connection, flow, http
from mitmproxy.addons import next_layer
from mitmproxy.net.http import http1, url
from mitmproxy.proxy import commands, context, layer, mode_servers, server
from mitmproxy.proxy.layers import http as http_layer
from mitmproxy.proxy.layers.http import HttpStream, _http1

from addon.core import (
    body_reading,
    connection_reading,
    direct_reading,
    inline_hooks,
    patch,
    request_reading,
    response_reading,
    reverse_mode,
    shortcuts,
)
from addon.core.dispatch_table import DispatchTable
from addon.core.patch import Patch
from addon.core.read_policy import ReadPolicy
from addon.core.reverse_mode import BoundSocket

CORE: tuple[Patch[ReadPolicy], ...] = (
    Patch(
        owner=_http1.Http1Client,
        name="read_headers",
        reason="An interim (1xx) response shifts every later response on its connection by one"
        " request, and heads, which anybody may send without end, are held without bound.",
        contract_test="test_response_reading.py::"
        "test_the_core_still_takes_an_interim_response_for_the_response",
        written_for="12.2.3",
        digest="deee23a79fe992b4",
        replace=response_reading.skip_interim_responses,
    ),
    Patch(
        owner=http1,
        name="read_response_head",
        reason="A head with control characters, folded lines or a status such as 20 is passed on,"
        " and clients differ in what they make of it.",
        contract_test="test_response_reading.py::"
        "test_the_core_still_takes_a_head_that_is_not_valid",
        written_for="12.2.3",
        digest="7f1f014abc5eeac1",
        replace=response_reading.refuse_invalid_heads,
    ),
    Patch(
        owner=_http1,
        name="make_body_reader",
        reason="Each chunk is an event of its own, so small chunks take the event loop for seconds,"
        " and trailers crash the flow.",
        contract_test="test_response_reading.py::test_the_core_still_makes_a_piece_of_every_chunk",
        written_for="12.2.3",
        digest="9b076acda459637b",
        replace=response_reading.read_chunks_together,
    ),
    Patch(
        owner=http1,
        name="read_request_head",
        reason="Control characters are stripped from a head before anybody can refuse them, and a first"
        " line is taken with any blanks, any version, and a method in small letters, which stay.",
        contract_test="test_request_reading.py::"
        "test_the_core_still_strips_control_characters_from_a_request_head",
        written_for="12.2.3",
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
        written_for="12.2.3",
        digest="496f9de6da56eb2d",
        replace=request_reading.take_turns,
    ),
    Patch(
        owner=_http1.Http1Connection,
        name="wait",
        reason="What a client sends before its response is held without bound.",
        contract_test="test_request_reading.py::"
        "test_the_core_still_keeps_what_comes_early_without_end",
        written_for="12.2.3",
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
        written_for="12.2.3",
        digest="d821888c1e1512b3",
        replace=body_reading.read_in_turn,
    ),
    Patch(
        owner=_http1,
        name="make_error_response",
        reason="The core refuses requests with a page of HTML that quotes them.",
        contract_test="test_request_reading.py::test_the_core_still_responds_to_faults_with_a_page",
        written_for="12.2.3",
        digest="03ce75ab62e8e78b",
        replace=request_reading.respond_in_json,
    ),
    Patch(
        owner=server.ConnectionHandler,
        name="drain_writers",
        reason="A connection whose next bytes are there already is read on, before all others.",
        contract_test="test_connection_reading.py::test_the_core_still_reads_on_without_giving_way",
        written_for="12.2.3",
        digest="e7d7a0d4bdd7ddf8",
        replace=connection_reading.give_way,
    ),
    Patch(
        owner=HttpStream,
        name="check_body_size",
        reason="The limit to what is held of request bodies is one for each body and none for all.",
        contract_test="test_connection_reading.py::test_the_core_still_holds_bodies_without_a_limit_to_all_of_them",
        written_for="12.2.3",
        digest="ae602ef9fc48ca89",
        replace=connection_reading.bound_held_bodies,
    ),
    Patch(
        owner=HttpStream,
        name="handle_protocol_error",
        reason="The body of a client that left is kept until a full garbage collection.",
        contract_test="test_connection_reading.py::"
        "test_the_core_still_keeps_the_body_of_a_client_that_left",
        written_for="12.2.3",
        digest="0dbef15c4f5bfb6c",
        replace=connection_reading.give_bodies_back,
    ),
)

# The rest is for ``python -m addon`` alone; stock ``mitmdump`` does without.

INLINE_HOOKS: tuple[Patch[DispatchTable], ...] = (
    Patch(
        owner=mode_servers.ReverseInstance,
        name="make_top_layer",
        reason="Each hook becomes a task, which is an eighth of the time that a small call takes.",
        contract_test="test_reverse_mode.py::test_the_core_still_hands_every_hook_to_its_handler",
        written_for="12.2.3",
        digest="a4c3982ff63e01e8",
        replace=reverse_mode.run_hooks_inline,
    ),
    Patch(
        owner=layer.Layer,
        name="handle_event",
        reason="For each of some hundred commands a call, it is asked twice whether to print it.",
        contract_test="test_inline_hooks.py::test_the_core_still_asks_for_each_command_whether_to_print_it",
        written_for="12.2.3",
        digest="1dd2c9090fd69965",
        replace=inline_hooks.handle_without_pauses,
    ),
    Patch(
        owner=layer.Layer,
        name="_Layer__process",
        reason="As for handle_event, in a layer that was paused.",
        contract_test="test_inline_hooks.py::test_the_core_still_pauses_at_each_hook",
        written_for="12.2.3",
        digest="d086f9b125debcea",
        replace=inline_hooks.process_without_pauses,
    ),
    Patch(
        owner=http_layer.HttpLayer,
        name="event_to_child",
        reason="For each command, it is asked of eight kinds whether it is one.",
        contract_test="test_inline_hooks.py::test_the_core_still_asks_commands_for_each_kind",
        written_for="12.2.3",
        digest="4c839d60a5dd3c7a",
        replace=inline_hooks.tell_commands_by_type,
    ),
    Patch(
        owner=HttpStream,
        name="make_server_connection",
        reason="A stream pauses to be given the connection that is open.",
        contract_test="test_inline_hooks.py::test_the_core_still_pauses_for_an_open_connection",
        written_for="12.2.3",
        digest="a08ce3538129b5c4",
        replace=inline_hooks.find_open_connection,
    ),
)

SHORTCUTS: tuple[Patch[None], ...] = (
    Patch(
        owner=http.Headers,
        name="get_all",
        reason="Each of some twenty look-ups a call makes every name of a message lower case again,"
        " which is a tenth of the time that a small call takes.",
        contract_test="test_shortcuts.py::test_the_core_still_lowers_every_name_for_each_look_up",
        written_for="12.2.3",
        digest="8ba8fea74e96e85e",
        replace=shortcuts.index_headers,
    ),
    Patch(
        owner=http.Headers,
        name="get",
        reason="A header that is not there, as most that are looked for, is told by an exception.",
        contract_test="test_shortcuts.py::test_the_core_still_raises_for_each_header_that_is_not_there",
        written_for="12.2.3",
        digest=None,
        replace=shortcuts.get_by_index,
    ),
    Patch(
        owner=http.Headers,
        name="__contains__",
        reason="As for get.",
        contract_test="test_shortcuts.py::test_the_core_still_raises_for_each_header_that_is_not_there",
        written_for="12.2.3",
        digest=None,
        replace=shortcuts.contain_by_index,
    ),
    Patch(
        owner=http.Headers,
        name="__init__",
        reason="No headers are added to those that were read, by a way that looks for their kind.",
        contract_test="test_shortcuts.py::test_the_core_still_adds_no_headers_to_those_it_is_given",
        written_for="12.2.3",
        digest="f4d2876b005465c9",
        replace=shortcuts.make_of_fields,
    ),
    Patch(
        owner=url,
        name="parse_authority",
        reason="The host that clients name is parsed, and converted to bytes and back, for each call.",
        contract_test="test_shortcuts.py::test_the_core_still_parses_each_authority",
        written_for="12.2.3",
        digest="d8338265c05d8491",
        replace=shortcuts.remember_authorities,
    ),
    *(
        Patch(
            owner=owner,
            name="expected_http_body_size",
            reason="It is asked six times a call, and reads the headers anew each time.",
            contract_test="test_shortcuts.py::test_the_core_still_asks_for_a_size_again_and_again",
            written_for="12.2.3",
            digest="bf258f07286cf770",
            replace=shortcuts.remember_body_size,
        )
        for owner in (http1, http_layer)
    ),
    Patch(
        owner=http_layer,
        name="validate_headers",
        reason="Each name of each message is checked anew, and looked at for those that frame it.",
        contract_test="test_shortcuts.py::test_the_core_still_checks_each_name_anew",
        written_for="12.2.3",
        digest="e7647a94704363e7",
        replace=shortcuts.validate_by_index,
    ),
    Patch(
        owner=flow.Flow,
        name="__init__",
        reason="Each flow gets a random id.",
        contract_test="test_shortcuts.py::test_the_core_still_gives_each_flow_a_random_id",
        written_for="12.2.3",
        digest="272367424e2c624c",
        replace=shortcuts.make_flow_without_uuid,
    ),
    Patch(
        owner=connection.Connection,
        name="__hash__",
        reason="Connections are keys by their ids, by a function of Python for each look-up.",
        contract_test="test_shortcuts.py::test_the_core_still_hashes_connections_by_their_ids",
        written_for="12.2.3",
        digest="407148f212165b71",
        replace=shortcuts.hash_by_identity,
    ),
    Patch(
        owner=context.Context,
        name="fork",
        reason="A server connection is made, with a random id, and thrown away.",
        contract_test="test_shortcuts.py::test_the_core_still_makes_a_connection_for_each_fork",
        written_for="12.2.3",
        digest="a8561fdbce31c14b",
        replace=shortcuts.fork_without_server,
    ),
    Patch(
        owner=commands.StartHook,
        name="__new__",
        reason="Each of the seven hooks of a call is asked whether its class is one of a hook.",
        contract_test="test_shortcuts.py::test_the_core_still_asks_each_hook_for_its_class",
        written_for="12.2.3",
        digest="4341473d392e52d6",
        replace=shortcuts.make_without_asking,
    ),
    Patch(
        owner=server.ConnectionHandler,
        name="handle_connection",
        reason="What has come is dealt with in the next turn of the event loop, by a task that it"
        " wakes.",
        contract_test="test_direct_reading.py::test_the_core_still_reads_in_a_later_turn",
        written_for="12.2.3",
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
        contract_test="test_reverse_mode.py::test_the_core_still_binds_a_socket_of_its_own",
        written_for="12.2.3",
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
            written_for="12.2.3",
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
        contract_test="test_next_layer.py::test_the_stock_addon_still_looks_for_tls",
        written_for="12.2.3",
        digest="3eec46d8373f6abe",
        replace=None,  # core.next_layer.PlainHttpNextLayer
    ),
)

EVERY: tuple[Patch[Any], ...] = (*CORE, *INLINE_HOOKS, *SHORTCUTS, *BOUND_SOCKET, *OVERRIDDEN)


def check() -> None:
    """Raise MitmproxyChangedError unless mitmproxy is one that all patches were written for."""
    patch.check(EVERY)


def patch_core(policy: ReadPolicy) -> None:
    """Apply the patches that any mitmproxy needs which serves this proxy.

    Raises MitmproxyChangedError, and then applies none."""
    patch.check(CORE)
    patch.apply(CORE, policy)


def run_hooks_inline(table: DispatchTable) -> None:
    """Put ``InlineHooks`` above every connection of the reverse proxy from now on."""
    patch.apply(INLINE_HOOKS, table)


def take_shortcuts() -> None:
    """Let the core do the same with less work from now on."""
    patch.apply(SHORTCUTS, None)


def listen_on(bound: BoundSocket) -> None:
    """Make the reverse proxy serve a socket that is bound already."""
    patch.apply(BOUND_SOCKET, bound)
