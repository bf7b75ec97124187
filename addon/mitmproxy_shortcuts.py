"""The list of those patches of mitmproxy that only let it do the same with less work.

They are for ``python -m addon`` alone; stock ``mitmdump`` does without. Counts are of a call of 2 KB.
"""

from mitmproxy import connection, http
from mitmproxy.net.http import http1, url
from mitmproxy.proxy import context, layer, mode_servers, server
from mitmproxy.proxy.layers import http as http_layer
from mitmproxy.proxy.layers.http import HttpStream, _http1

from addon.core import (
    direct_reading,
    header_shortcuts,
    inline_hooks,
    letting_go,
    reverse_mode,
    shortcuts,
)
from addon.core.dispatch_table import DispatchTable
from runtime.patches import Patch

INLINE_HOOKS: tuple[Patch[DispatchTable], ...] = (
    Patch(
        owner=mode_servers.ReverseInstance,
        name="make_top_layer",
        reason="Each hook becomes a task, which is an eighth of the time that a small call takes.",
        contract_test="test_reverse_mode.py::test_the_core_still_hands_every_hook_to_its_handler",
        digest="a4c3982ff63e01e8",
        replace=reverse_mode.run_hooks_inline,
    ),
    Patch(
        owner=layer.Layer,
        name="handle_event",
        reason="For each of some hundred commands a call, it is asked twice whether to print it.",
        contract_test="test_inline_hooks.py::test_the_core_still_asks_for_each_command_whether_to_print_it",
        digest="1dd2c9090fd69965",
        replace=inline_hooks.handle_without_pauses,
    ),
    Patch(
        owner=layer.Layer,
        name="_Layer__process",
        reason="As for handle_event, in a layer that was paused.",
        contract_test="test_inline_hooks.py::test_the_core_still_pauses_at_each_hook",
        digest="d086f9b125debcea",
        replace=inline_hooks.process_without_pauses,
    ),
    Patch(
        owner=http_layer.HttpLayer,
        name="event_to_child",
        reason="For each command, it is asked of eight kinds whether it is one. A stream that is done"
        " waits for the garbage collector, in two cycles.",
        contract_test="test_inline_hooks.py::test_the_core_still_asks_commands_for_each_kind",
        digest="4c839d60a5dd3c7a",
        replace=inline_hooks.tell_commands_by_type,
    ),
    Patch(
        owner=HttpStream,
        name="make_server_connection",
        reason="A stream pauses to be given the connection that is open.",
        contract_test="test_inline_hooks.py::test_the_core_still_pauses_for_an_open_connection",
        digest="a08ce3538129b5c4",
        replace=inline_hooks.find_open_connection,
    ),
    Patch(
        owner=http_layer.HttpLayer,
        name="handle_event",
        reason="What was read passes two generators that only pass it on.",
        contract_test="test_inline_hooks.py::test_the_core_still_passes_commands_on_by_more_generators",
        digest="1dd2c9090fd69965",
        replace=inline_hooks.pass_reads_on,
    ),
    Patch(
        owner=_http1.Http1Connection,
        name="_handle_event",
        reason="A generator between that of a layer and that of its state passes each command on.",
        contract_test="test_inline_hooks.py::test_the_core_still_passes_commands_on_by_more_generators",
        digest="8e7c38711a968c35",
        replace=inline_hooks.hand_over_in_connection,
    ),
    Patch(
        owner=HttpStream,
        name="_handle_event",
        reason="As in Http1Connection.",
        contract_test="test_inline_hooks.py::test_the_core_still_passes_commands_on_by_more_generators",
        digest="08dc61acd70222bb",
        replace=inline_hooks.hand_over_in_stream,
    ),
)

SHORTCUTS: tuple[Patch[None], ...] = (
    Patch(
        owner=http.Headers,
        name="get_all",
        reason="Each of some twenty look-ups a call makes every name of a message lower case again,"
        " which is a tenth of the time that a small call takes.",
        contract_test="test_shortcuts.py::test_the_core_still_lowers_every_name_for_each_look_up",
        digest="8ba8fea74e96e85e",
        replace=header_shortcuts.index_headers,
    ),
    Patch(
        owner=http.Headers,
        name="get",
        reason="A header that is not there, as most that are looked for, is told by an exception.",
        contract_test="test_shortcuts.py::test_the_core_still_raises_for_each_header_that_is_not_there",
        digest=None,
        replace=header_shortcuts.get_by_index,
    ),
    Patch(
        owner=http.Headers,
        name="__contains__",
        reason="As for get.",
        contract_test="test_shortcuts.py::test_the_core_still_raises_for_each_header_that_is_not_there",
        digest=None,
        replace=header_shortcuts.contain_by_index,
    ),
    Patch(
        owner=http.Headers,
        name="__init__",
        reason="No headers are added to those that were read, by a way that looks for their kind.",
        contract_test="test_shortcuts.py::test_the_core_still_adds_no_headers_to_those_it_is_given",
        digest="f4d2876b005465c9",
        replace=header_shortcuts.make_of_fields,
    ),
    Patch(
        owner=url,
        name="parse_authority",
        reason="The host that clients name is parsed, and converted to bytes and back, for each call.",
        contract_test="test_shortcuts.py::test_the_core_still_parses_each_authority",
        digest="d8338265c05d8491",
        replace=shortcuts.remember_authorities,
    ),
    *(
        Patch(
            owner=owner,
            name="expected_http_body_size",
            reason="It is asked six times a call, and reads the headers anew each time.",
            contract_test="test_shortcuts.py::test_the_core_still_asks_for_a_size_again_and_again",
            digest="bf258f07286cf770",
            replace=header_shortcuts.remember_body_size,
        )
        for owner in (http1, http_layer)
    ),
    Patch(
        owner=http_layer,
        name="validate_headers",
        reason="Each name is checked by itself, and looked at for those that frame a message.",
        contract_test="test_shortcuts.py::test_the_core_still_checks_each_name_by_itself",
        digest="e7647a94704363e7",
        replace=header_shortcuts.validate_by_index,
    ),
    Patch(
        owner=connection.Connection,
        name="__hash__",
        reason="Connections are keys by their ids, by a function of Python for each look-up.",
        contract_test="test_shortcuts.py::test_the_core_still_hashes_connections_by_their_ids",
        digest="407148f212165b71",
        replace=shortcuts.hash_by_identity,
    ),
    Patch(
        owner=context.Context,
        name="fork",
        reason="A server connection is made, with a random id, and thrown away.",
        contract_test="test_shortcuts.py::test_the_core_still_makes_a_connection_for_each_fork",
        digest="a8561fdbce31c14b",
        replace=shortcuts.fork_without_server,
    ),
    Patch(
        owner=server.ConnectionHandler,
        name="handle_connection",
        reason="What has come is dealt with in the next turn of the event loop, by a task that it"
        " wakes.",
        contract_test="test_direct_reading.py::test_the_core_still_reads_in_a_later_turn",
        digest="2cd24c42884752ac",
        replace=direct_reading.read_directly,
    ),
    Patch(
        owner=server.ConnectionHandler,
        name="handle_client",
        reason="What a connection leaves waits for the garbage collector, in cycles.",
        contract_test="test_letting_go.py::"
        "test_the_core_still_leaves_each_connection_to_the_garbage_collector",
        digest="8b7e65bb29baac16",
        replace=letting_go.let_go,
    ),
)
