"""The contract with the functions that have a shorter way.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st
from mitmproxy import connection, hooks, options
from mitmproxy.addons import proxyserver
from mitmproxy.connection import ConnectionState
from mitmproxy.http import Headers
from mitmproxy.net.http import http1
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode
from mitmproxy.proxy.layers.http._hooks import HttpRequestHook
from mitmproxy.test import taddons, tflow, tutils

from addon import mitmproxy_patches
from addon.core import shortcuts

NAMES = st.sampled_from([b"Host", b"host", b"HOST", b"X-A", b"x-a", b"x-b", b"\xff"])
FIELDS = st.lists(st.tuples(NAMES, st.binary(max_size=3)), max_size=8)


class CountingName(bytes):
    """A name that counts how often it was made lower case."""

    lowered = 0

    def lower(self):
        CountingName.lowered += 1
        return super().lower()


def look_up(times):
    CountingName.lowered = 0
    headers = Headers()
    headers.fields = ((CountingName(b"Host"), b"a"), (CountingName(b"Accept"), b"b"))
    assert [headers.get("accept") for _ in range(times)] == ["b"] * times
    return CountingName.lowered


def make_context():
    return context.Context(tflow.tclient_conn(), options.Options())


@pytest.fixture
def made(monkeypatch):
    """The server connections that were made."""
    connections = []
    original = connection.Server.__init__

    def note(self, *arguments, **named):
        connections.append(self)
        original(self, *arguments, **named)

    monkeypatch.setattr(connection.Server, "__init__", note)
    return connections


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_lowers_every_name_for_each_look_up():
    assert look_up(times=5) == 10


@pytest.mark.usefixtures("unpatched")
def test_names_are_made_lower_once_for_each_message():
    mitmproxy_patches.take_shortcuts()
    assert look_up(times=5) == 2


@given(FIELDS, FIELDS)
def test_headers_are_found_as_before(fields, changed):
    original = mitmproxy_patches.SHORTCUTS[0].original
    get_all = shortcuts.index_headers(original, None)
    headers = Headers(fields)
    for headers.fields in (tuple(fields), tuple(changed)):
        for name in ("host", "HOST", b"Host", "x-A", "absent", b"\xff", "\udcff"):
            assert get_all(headers, name) == original(headers, name)


@pytest.mark.usefixtures("unpatched")
def test_what_is_found_follows_changes_and_copies_are_apart():
    mitmproxy_patches.take_shortcuts()
    headers = Headers(host="a")
    assert headers["host"] == "a"
    copy = headers.copy()
    headers["host"] = "b"
    headers.add("x-a", "1")
    del copy["host"]
    assert (headers["Host"], headers.get("x-a"), "host" in copy) == ("b", "1", False)
    assert headers == Headers([(b"host", b"b"), (b"x-a", b"1")])


class CountingHeaders(Headers):
    """Headers that count how often one was looked up."""

    look_ups = 0

    def get_all(self, name):
        CountingHeaders.look_ups += 1
        return super().get_all(name)


def ask_for_size(times, fields=((b"content-length", b"5"),)):
    CountingHeaders.look_ups = 0
    request = tutils.treq(headers=CountingHeaders(fields))
    assert [http1.expected_http_body_size(request) for _ in range(times)] == [5] * times
    return CountingHeaders.look_ups


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_asks_for_a_size_again_and_again():
    assert ask_for_size(times=3) == 3 * ask_for_size(times=1)


@pytest.mark.usefixtures("unpatched")
def test_the_size_of_a_body_is_read_once_until_the_message_changes():
    once = ask_for_size(times=1)
    mitmproxy_patches.take_shortcuts()
    assert ask_for_size(times=3) == once
    request, response = tutils.treq(), tutils.tresp()
    sizes = []
    for method, status, length in (
        ("GET", 200, "5"), ("HEAD", 200, "5"), ("GET", 204, "5"), ("GET", 200, "6"), ("GET", 200, "x"),
    ):  # fmt: skip
        request.method, response.status_code = method, status
        response.headers["content-length"] = length
        with suppress(ValueError):
            sizes.append(http1.expected_http_body_size(request, response))
    assert sizes == [5, 0, 0, 6]
    assert http1.expected_http_body_size(request) == 7


LENGTHS = st.sampled_from(
    [b"0", b"5", b"05", b"+5", b"5 ", b"", b"5, 5", b"\xb2", b"9" * 18, b"9" * 19]
)
FRAMING = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([b"Content-Length", b"content-length"]), LENGTHS),
        st.tuples(st.just(b"Transfer-Encoding"), st.sampled_from([b"chunked", b"gzip", b"x"])),
    ),
    max_size=2,
)
STATUSES = st.sampled_from([None, 200, 204, 304, 101, 404])


@given(FRAMING, st.sampled_from(["POST", "GET", "HEAD", "CONNECT"]), STATUSES)
def test_sizes_are_as_before(fields, method, status):
    (original,) = {
        each.original for each in mitmproxy_patches.SHORTCUTS if "body_size" in each.name
    }
    shorter = shortcuts.remember_body_size(original, None)
    request = tutils.treq(method=method.encode(), headers=Headers(fields if status is None else ()))
    response = None
    if status is not None:
        response = tutils.tresp(status_code=status, headers=Headers(fields))

    def ask(function):
        try:
            return function(request, response)
        except ValueError as error:
            return str(error)

    assert [ask(shorter), ask(shorter)] == [ask(original)] * 2


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_makes_a_connection_for_each_fork(made):
    here = make_context()
    here.fork()
    assert len(made) == 2


@pytest.mark.usefixtures("unpatched")
def test_a_fork_has_all_that_the_stock_one_has(made):
    here = make_context()
    here.layers.append("a layer")
    stock = here.fork()
    mitmproxy_patches.take_shortcuts()
    made.clear()
    fork = here.fork()
    assert vars(fork) == vars(stock)
    assert fork.layers is not here.layers
    assert made == []


def count_class_checks(monkeypatch):
    asked: list[type] = []

    def is_dataclass(kind):
        asked.append(kind)
        return True

    monkeypatch.setattr(hooks, "is_dataclass", is_dataclass)
    flow = tflow.tflow()
    hook = HttpRequestHook(flow)
    assert (hook.flow, hook.name, hook.blocking) == (flow, "request", True)
    return len(asked)


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_asks_each_hook_for_its_class(monkeypatch):
    assert count_class_checks(monkeypatch) == 1


@pytest.mark.usefixtures("unpatched")
def test_hooks_are_made_without_asking_for_their_class(monkeypatch):
    mitmproxy_patches.take_shortcuts()
    assert count_class_checks(monkeypatch) == 0


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


@pytest.mark.usefixtures("unpatched")
def test_it_is_asked_once_for_each_event_whether_to_print_commands():
    mitmproxy_patches.take_shortcuts()
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


@pytest.mark.usefixtures("unpatched")
def test_the_kind_of_a_command_is_looked_up():
    mitmproxy_patches.take_shortcuts()
    assert count_questions() <= 4


@pytest.mark.usefixtures("unpatched")
def test_a_layer_that_waits_goes_on_with_the_reply_and_what_came_meanwhile():
    mitmproxy_patches.take_shortcuts()
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


def hold_conversation():
    """Return what the layers of a connection order in the course of two exchanges, and its end."""
    with taddons.context(proxyserver.Proxyserver()) as tctx:
        client = tflow.tclient_conn()
        client.state = ConnectionState.OPEN
        here = context.Context(client, tctx.options)
        here.server.address = ("a", 1)
        top, heard, waiting = HttpLayer(here, HTTPMode.transparent), [], []

        def tell(event):
            waiting.append(event)
            while waiting:
                for command in top.handle_event(waiting.pop(0)):
                    heard.append((type(command), getattr(command, "data", None)))
                    if isinstance(command, commands.StartHook):
                        heard[-1] = (type(command), None)
                        waiting.append(events.HookCompleted(command))
                    if isinstance(command, commands.OpenConnection):
                        command.connection.state = ConnectionState.OPEN
                        waiting.append(events.OpenConnectionCompleted(command, None))

        tell(events.Start())
        for _ in range(2):
            tell(events.DataReceived(client, REQUEST))
            (upstream,) = [each for each in top.connections if each is not client]
            for start in range(0, len(RESPONSE), 30):
                tell(events.DataReceived(upstream, RESPONSE[start : start + 30]))
        client.state = ConnectionState.CAN_WRITE
        tell(events.ConnectionClosed(client))
        return heard


@pytest.mark.usefixtures("unpatched")
def test_layers_order_the_same_by_shorter_ways():
    ordered = hold_conversation()
    assert sum(kind is commands.SendData for kind, _ in ordered) >= 8
    mitmproxy_patches.take_shortcuts()
    assert hold_conversation() == ordered


@pytest.mark.usefixtures("unpatched")
def test_options_are_not_copied_for_each_reader():
    with taddons.context(proxyserver.Proxyserver()) as tctx:
        opts = tctx.options
        opts.update(connection_strategy="lazy", mode=["reverse:http://a:1"])
        shortcuts.fix_options(opts)
        assert opts.__dict__["connection_strategy"] == "lazy"
        assert {name: getattr(opts, name) for name in opts.keys()} == {  # noqa: SIM118
            name: option.current() for name, option in opts.items()
        }
        opts.mode.append("regular")
        assert opts.mode == ["reverse:http://a:1"]
