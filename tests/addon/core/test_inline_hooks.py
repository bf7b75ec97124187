"""The contract with mitmproxy about how layers wait for hooks, and pass commands on.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

import gc
import inspect
import logging
from collections import defaultdict
from typing import Any

import pytest
from mitmproxy import options
from mitmproxy.addons import proxyserver
from mitmproxy.connection import ConnectionState
from mitmproxy.http import MessageData
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode, HttpStream
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._hooks import HttpRequestHook
from mitmproxy.test import taddons, tflow

from addon import mitmproxy_patches
from addon.core.dispatch_table import DispatchTable
from addon.core.reverse_mode import InlineHooks


def apply_all():
    with taddons.context() as tctx:
        mitmproxy_patches.run_hooks_inline(DispatchTable(tctx.master))
    mitmproxy_patches.take_shortcuts()


@pytest.fixture
def inline(unpatched):
    """Applies the patches by which hooks run inline."""
    apply_all()


def make_context():
    return context.Context(tflow.tclient_conn(), options.Options())


class Log(commands.Log):
    """A command that counts how often it was asked whether it is of another kind."""

    asked = 0

    @property  # type: ignore[misc]
    def __class__(self):
        Log.asked += 1
        return commands.Log


class Speaker(layer.Layer):
    """A layer that says what it is told to make, and counts how often it is asked whether to print it."""

    looks = 0

    def __init__(self, here, *makers):
        super().__init__(here)
        self.makers = makers
        self.replies = []

    @property
    def debug(self):  # type: ignore[override]
        Speaker.looks += 1

    def _handle_event(self, event):
        for make in self.makers:
            self.replies.append((yield make()))


def count_looks():
    Speaker.looks = 0
    speaker = Speaker(make_context(), *[lambda: commands.Log("a line")] * 5)
    assert len([*speaker.handle_event(events.Start())]) == 5
    return Speaker.looks


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_asks_for_each_command_whether_to_print_it():
    assert count_looks() > 5


@pytest.mark.usefixtures("inline")
def test_it_is_asked_once_for_each_event_whether_to_print_commands():
    assert count_looks() == 1


def count_questions():
    Log.asked = 0
    here = make_context()
    http_layer = HttpLayer(here, HTTPMode.transparent)
    said = [*http_layer.event_to_child(Speaker(here, lambda: Log("a line")), events.Start())]
    assert len(said) == 1
    return Log.asked


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_asks_commands_for_each_kind():
    assert count_questions() > 5


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize(("level", "said"), [(logging.DEBUG, 0), (logging.CRITICAL, 1)])
def test_a_line_that_nobody_logs_goes_no_further(level, said):
    here = make_context()
    speaker = Speaker(here, lambda: commands.Log("a line", level))
    http = HttpLayer(here, HTTPMode.transparent)
    assert len([*http.event_to_child(speaker, events.Start())]) == said


@pytest.mark.usefixtures("inline")
def test_the_kind_of_a_command_is_looked_up():
    assert count_questions() <= 5


def run_hooks(said):
    """Return the commands of a layer whose hooks run when they come up."""
    heard = []
    for command in said:
        heard.append(command)
        if isinstance(command, commands.StartHook):
            command.blocking = False
    return heard


def make_hook():
    return HttpRequestHook(tflow.tflow())


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_pauses_at_each_hook():
    speaker = Speaker(make_context(), make_hook, make_hook)
    (hook,) = run_hooks(speaker.handle_event(events.Start()))
    (second,) = run_hooks(speaker.handle_event(events.HookCompleted(hook)))
    assert second is not hook


@pytest.mark.usefixtures("inline")
def test_a_layer_goes_on_when_its_hook_has_run():
    speaker = Speaker(make_context(), make_hook, lambda: commands.Log("a line"), make_hook)
    assert len(run_hooks(speaker.handle_event(events.Start()))) == 3
    assert len(run_hooks(speaker.handle_event(events.Start()))) == 3


@pytest.mark.usefixtures("inline")
def test_a_layer_waits_for_a_hook_that_runs_on():
    speaker = Speaker(make_context(), make_hook, lambda: commands.Log("a line"))
    hook: Any
    (hook,) = speaker.handle_event(events.Start())
    assert hook.blocking is speaker
    assert len([*speaker.handle_event(events.HookCompleted(hook))]) == 1


@pytest.mark.usefixtures("inline")
def test_a_layer_that_was_paused_goes_on_when_its_hook_has_run():
    here = make_context()
    speaker = Speaker(here, lambda: commands.OpenConnection(here.server), make_hook, make_hook)
    wait: Any
    (wait,) = speaker.handle_event(events.Start())
    reply = events.OpenConnectionCompleted(wait, None)
    assert len(run_hooks(speaker.handle_event(reply))) == 2


@pytest.mark.usefixtures("inline")
def test_a_layer_that_waits_goes_on_with_the_reply_and_what_came_meanwhile():
    here = make_context()
    line = commands.Log("a line")
    speaker = Speaker(here, lambda: commands.OpenConnection(here.server), lambda: line)
    wait: Any
    (wait,) = speaker.handle_event(events.Start())
    assert [*speaker.handle_event(events.Start())] == []
    first, second = speaker.handle_event(events.OpenConnectionCompleted(wait, "refused"))
    assert first is line
    assert isinstance(second, commands.OpenConnection)
    assert speaker.replies == ["refused", None]


REQUEST = b"POST /v1 HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody"
RESPONSE = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"


class Server:
    """Speaks for a client, an upstream and the server between them, and notes what a top layer orders.
    Hooks run when they come up, or are completed later."""

    def __init__(self, *, inline):
        self.heard = []
        self.connections_asked_for = 0
        self._inline = inline

    def start(self, hook):
        """Stand in for the table of hooks."""
        self.heard.append((type(hook), None))
        return self._inline

    def _tell(self, top, event):
        waiting = [event]
        while waiting:
            for command in top.handle_event(waiting.pop(0)):
                if isinstance(command, commands.StartHook):
                    waiting.append(events.HookCompleted(command))
                elif isinstance(command, commands.OpenConnection):
                    command.connection.state = ConnectionState.OPEN
                    waiting.append(events.OpenConnectionCompleted(command, None))
                else:
                    self.heard.append((type(command), getattr(command, "data", None)))

    def hold_conversation(self, *, upstream_closes=False):
        """Return what the layers of a connection order in the course of two exchanges, and its end."""
        with taddons.context(proxyserver.Proxyserver()) as tctx:
            client = tflow.tclient_conn()
            client.state = ConnectionState.OPEN
            here = context.Context(client, tctx.options)
            here.server.address = ("a", 1)
            http = HttpLayer(here, HTTPMode.transparent)
            get_connection = http.get_connection

            def count(event, **named):
                self.connections_asked_for += 1
                return get_connection(event, **named)

            http.get_connection = count  # type: ignore[method-assign]
            top = InlineHooks(http, self)  # type: ignore[arg-type]
            self._tell(top, events.Start())
            for _ in range(2):
                self._tell(top, events.DataReceived(client, REQUEST))
                upstream = [each for each in http.connections if each is not client][-1]
                for start in range(0, len(RESPONSE), 30):
                    self._tell(top, events.DataReceived(upstream, RESPONSE[start : start + 30]))
                if upstream_closes:
                    upstream.state = ConnectionState.CAN_WRITE
                    self._tell(top, events.ConnectionClosed(upstream))
                    upstream.state = ConnectionState.CLOSED
            client.state = ConnectionState.CAN_WRITE
            self._tell(top, events.ConnectionClosed(client))
            assert http.command_sources == {}
        return self.heard


@pytest.mark.usefixtures("unpatched")
@pytest.mark.parametrize("upstream_closes", [False, True])
@pytest.mark.parametrize("inline", [False, True])
def test_layers_order_the_same_by_shorter_ways(upstream_closes, inline):
    ordered = Server(inline=False).hold_conversation(upstream_closes=upstream_closes)
    assert sum(kind is commands.SendData for kind, _ in ordered) >= 4
    apply_all()
    assert Server(inline=inline).hold_conversation(upstream_closes=upstream_closes) == ordered


def count_requests_for_connections():
    server = Server(inline=False)
    server.hold_conversation()
    return server.connections_asked_for


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_pauses_for_an_open_connection():
    assert count_requests_for_connections() == 2


@pytest.mark.usefixtures("inline")
def test_an_open_connection_is_taken_without_a_pause():
    assert count_requests_for_connections() == 1


@pytest.fixture
def count_streams_left(monkeypatch):
    """Returns a function that counts the streams of a conversation which only the garbage collector finds."""
    # With -O, as in a service, messages are not checked; a check leaves the frames that called it.
    monkeypatch.setattr(MessageData, "__post_init__", lambda _self: None)

    def count():
        gc.collect()
        gc.disable()
        try:
            Server(inline=False).hold_conversation()
            return sum(type(each) is HttpStream for each in gc.get_objects())
        finally:
            gc.enable()

    return count


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_leaves_each_stream_to_the_garbage_collector(count_streams_left):
    assert count_streams_left() == 2


@pytest.mark.usefixtures("inline")
def test_a_stream_that_is_done_is_gone_at_once(count_streams_left):
    assert count_streams_left() == 0


def measure_depths(monkeypatch):
    """Return under how many functions and generators a connection and a stream make their commands."""
    depths: dict[type, int] = defaultdict(lambda: 1000)

    def note(kind, name):
        original = getattr(kind, name)

        def call(self, *arguments, **named):
            depths[kind] = min(depths[kind], len(inspect.stack(0)))
            return original(self, *arguments, **named)

        patched.setattr(kind, name, call)

    with monkeypatch.context() as patched:
        note(ReceiveHttp, "__init__")
        note(HttpStream, "check_body_size")
        Server(inline=False).hold_conversation()
    return depths


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_passes_commands_on_by_more_generators(monkeypatch):
    before = measure_depths(monkeypatch)
    apply_all()
    now = measure_depths(monkeypatch)
    assert {kind: before[kind] - depth >= 3 for kind, depth in now.items()} == {
        ReceiveHttp: True,
        HttpStream: True,
    }
