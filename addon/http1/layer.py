"""A client connection and its upstreams, as a state machine.

It takes the place of mitmproxy's ``HttpLayer`` and all below it, makes the same flows, and runs the same
hooks. A client has one call at a time; the states are those of what the client sends:

| state | what is awaited | what the client sends | the next state |
| --- | --- | --- | --- |
| HEAD | a request | is read as a head | BODY |
| BODY | the rest of a request | is held, or passed on | WAIT |
| WAIT | the response | is kept for later, within bounds | HEAD, or DONE after a last call |
| DONE | the end of the connection | is thrown away | |

| what happens | in HEAD, DONE | in BODY, WAIT |
| --- | --- | --- |
| the client ends | DONE | the call ends with an error, DONE |
| the upstream sends | it is dropped: nobody has asked | is the response, also before the request is whole |
| the upstream ends | it is forgotten | before the response is whole: the call ends with an error, DONE |
| | | after it, in BODY: the rest of the request is thrown away, DONE |

A client that closes its sending side only has left, too: what it would wait for costs money.

A request that is held is sent once it is whole, one that is streamed once its upstream is connected. Until
then the rest of it stays in ``ClientInput``, and ``connection_reading`` reads only a little more.
"""

import enum
import time
from collections.abc import Awaitable
from typing import ClassVar

from mitmproxy import connection as mitmproxy_connection, ctx, flow as flows, http
from mitmproxy.connection import ConnectionState
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers.http import _hooks
from mitmproxy.proxy.server import ConnectionHandler

from addon import errors, own_responses
from addon.core import head_bounds, response_heads
from addon.core.read_policy import ReadPolicy
from addon.errors import Refusal
from addon.headers import index_of
from addon.http1 import chunked, framing, heads
from addon.http1.call import Call
from addon.http1.chunked import InChunks
from addon.http1.client_input import ClientInput
from addon.http1.framing import KnownLength
from addon.http1.hook_table import HookTable
from addon.http1.upstream import Commands, Destination, Opened, Upstream, Upstreams

MAX_EARLY_BYTES = 256 * 1024
"""Of requests that a client sends before the response to the first: SDKs send none, test programs a few."""
LARGEST_JOINED_BYTES = 64 * 1024
"""Of what is sent in one write. To copy more than so much costs more than to write again."""
TLS_RECORD = 0x16
"""The first byte of a client that speaks TLS. It will send nothing more before it gets a response."""
CLIENT_LEFT = "Client disconnected."

type FlowHook = (
    _hooks.HttpRequestHeadersHook
    | _hooks.HttpRequestHook
    | _hooks.HttpResponseHeadersHook
    | _hooks.HttpResponseHook
    | _hooks.HttpErrorHook
)


class State(enum.Enum):
    """The states of a client connection, by what happens to what the client sends."""

    HEAD = enum.auto()
    BODY = enum.auto()
    WAIT = enum.auto()
    DONE = enum.auto()


class Http1Layer(layer.Layer):
    """One client connection with its calls."""

    policy: ClassVar[ReadPolicy]

    def __init__(self, here: context.Context, hooks: HookTable | None = None) -> None:
        """Run hooks by a table, or let mitmproxy run them."""
        super().__init__(here)
        self.input = ClientInput()
        self._client = here.client
        self._heads = self.policy.heads
        self._state = State.HEAD
        self._call: Call | None = None
        self._upstreams = Upstreams(here)
        self._hooks = hooks

    # -- events -----------------------------------------------------------------------------------

    def _handle_event(self, event: events.Event) -> Commands:
        if isinstance(event, events.ConnectionEvent):
            if event.connection is not self._client:
                upstream = self._upstreams.find_of(event.connection)
                return _nothing() if upstream is None else self._receive(upstream, event)
            if isinstance(event, events.DataReceived):
                return self._take_from_client(event.data)
            return self._client_closed()
        if isinstance(event, events.Wakeup):
            return self._go_on()
        if isinstance(event, events.CommandCompleted):
            upstream = self._upstreams.find_awaiting(event.command)
            return _nothing() if upstream is None else self._receive(upstream, event)
        self._take_place()
        return _nothing()

    def _take_place(self) -> None:
        """Have events come here at once: the layers above would only pass them on."""
        proxyserver = ctx.master.addons.get("proxyserver")
        handler = proxyserver.connections.get(self._client.id) if proxyserver else None
        if handler is not None:
            handler.layer = self

    def _receive(self, upstream: Upstream, event: events.Event) -> Commands:
        for news in (yield from upstream.receive(event)):
            match news:
                case Opened():
                    yield from self._upstream_opened(upstream, news.error)
                case events.DataReceived():
                    yield from self._take_from_upstream(upstream, news.data)
                case _:
                    yield from self._upstream_closed(upstream)

    def _hook(self, kind: type[FlowHook], flow: http.HTTPFlow) -> Commands:
        """Run a hook right here, or let mitmproxy run it and go on when it has."""
        left = kind(flow) if self._hooks is None else self._hooks.run(kind.name, flow)
        if left is not None:
            self.input.awaits_hook = True
            yield left
            self.input.awaits_hook = False

    # -- the head of a request --------------------------------------------------------------------

    def _take_from_client(self, data: bytes) -> Commands:
        held, call = self.input, self._call
        if self._state is State.DONE or held.is_refused:
            return
        if self._state is State.BODY and call is not None:
            yield from self._read_body(call, data)
            return
        held.buffer += data
        if self._state is State.HEAD:
            if not held.waits_for_turn:
                yield from self._read_head()
        elif len(held.buffer) > MAX_EARLY_BYTES or not self._hold(len(held.buffer)):
            yield from self._client_gone()

    def _hold(self, held_bytes: int) -> bool:
        return self._heads.hold(self._client.id, held_bytes)

    def _read_head(self) -> Commands:
        buffer = self.input.buffer
        heads.skip_empty_lines(buffer)
        excess = head_bounds.find_excess(buffer._data, self._heads.largest_bytes)
        if excess is not None:
            self._heads.count_too_large()
            yield from self._refuse(errors.head_too_large(excess))
            return
        head = heads.take_head(buffer)
        if head is None:
            yield from self._await_rest_of_head()
            return
        self._heads.is_whole(self._client.id)
        self._hold(0)  # what is behind it is its body, and counts as that
        try:
            request = heads.parse_request(head)
        except heads.BadLineError as error:
            yield from self._refuse(errors.bad_header(str(error)))
            return
        except ValueError as error:
            yield from self._send_last(own_responses.make_protocol_error(400, str(error)))
            return
        yield from self._begin(request)

    def _await_rest_of_head(self) -> Commands:
        buffer = self.input.buffer
        if not buffer:
            return
        self._heads.await_rest(self._client.id)
        if buffer._data[0] == TLS_RECORD:
            words = "This port speaks plain HTTP: use http:// to reach it."
            yield from self._refuse(errors.protocol_error(400, words))
        elif not self._hold(len(buffer)):
            yield from self._refuse(errors.MEMORY_FULL)

    def _begin(self, request: http.Request) -> Commands:
        flow = http.HTTPFlow(self._client, self.context.server)
        flow.request, flow.live = request, True
        fault = _find_fault(request)
        size: int | None = 0
        try:
            size = heads.find_body_size(request)
        except ValueError as error:
            fault = fault or f"Received {error} from client"
        if fault is not None:
            flow.error = flows.Error(fault)
            yield from self._hook(_hooks.HttpRequestHeadersHook, flow)
            yield from self._hook(_hooks.HttpErrorHook, flow)
            yield from self._send_last(own_responses.make_protocol_error(400, fault))
            return
        server = self.context.server
        request.data.host, request.data.port = server.address or ("", 0)
        request.data.scheme = b"https" if server.tls else b"http"
        request.stream = size is not None and size > self.policy.largest_held_bytes
        call = self._call = Call(flow, size)
        self._state = State.BODY
        yield from self._hook(_hooks.HttpRequestHeadersHook, flow)
        if (yield from self._has_ended(call)):
            return
        yield from self._await_body(call)

    def _await_body(self, call: Call) -> Commands:
        request = call.flow.request
        if index_of(request.headers).get(b"expect", b"").lower() == b"100-continue":
            if request.data.http_version != b"HTTP/1.0":  # which knows no interim responses
                yield commands.SendData(self._client, b"HTTP/1.1 100 Continue\r\n\r\n")
            del request.headers[b"expect"]
        if request.stream and not call.request_body.is_whole and call.flow.response is None:
            call.is_streamed = True
            yield from self._connect(call)
        if self._call is call and not call.is_sent:
            yield from self._read_body(call)

    # -- the body of a request --------------------------------------------------------------------

    def _read_body(self, call: Call, data: bytes = b"") -> Commands:
        """Take what has come of a request body: what was kept, and ``data`` behind it."""
        held, body = self.input, call.request_body
        if held.is_postponed or (call.is_streamed and not call.is_sent):
            held.buffer += data
            return
        if held.buffer:
            data = held.take_all() + data
        if isinstance(body, InChunks) and chunked.is_costly(data):
            wait_s = chunked.rest.owed_s()
            if wait_s:
                held.buffer += data
                held.is_postponed = True
                yield commands.RequestWakeup(wait_s)
                return
        data = body.feed(data)
        if body.is_whole and (surplus := body.take_surplus()):
            held.buffer += surplus
            self._hold(len(surplus))
        if call.is_streamed:
            yield from self._pass_request(call, data)
        else:
            yield from self._hold_request(call, data)

    def _hold_request(self, call: Call, data: bytes) -> Commands:
        flow, body = call.flow, call.request_body
        call.hold(data)
        if call.held_bytes > self.policy.largest_held_bytes:
            flow.request.stream = True
            self.policy.stop_holding(flow)
            call.is_streamed = True
            self.input.left_bytes = 0
            yield from self._connect(call)  # what is held is sent once it is open
        elif data and not self.policy.may_hold(flow, call.held_bytes):
            call.take_held()
            yield from self._has_ended(call)
        elif body.fault is not None:
            yield from self._bad_body(call, body.fault)
        elif body.is_whole:
            yield from self._request_held(call)
        elif isinstance(body, KnownLength):
            self.input.left_bytes = body.left

    def _request_held(self, call: Call) -> Commands:
        """Send a request that is whole, or the response that an addon has for it."""
        flow = call.flow
        self.input.left_bytes = 0
        flow.request.timestamp_end = time.time()
        flow.request.data.content = call.take_held()
        call.request_is_whole = True
        self._state = State.WAIT
        yield from self._hook(_hooks.HttpRequestHook, flow)
        if (yield from self._has_ended(call)):
            return
        if flow.response is not None:
            yield from self._respond(call)
        else:
            yield from self._connect(call)

    def _pass_request(self, call: Call, data: bytes) -> Commands:
        """Send a part of a request that is streamed, and its end."""
        body = call.request_body
        if data:
            yield from self._send(call, call.pass_request(data))
        if body.fault is not None:
            yield from self._bad_body(call, body.fault)
        if not body.is_whole or self._call is not call:
            return
        yield from self._send(call, call.pass_request(b""))
        call.flow.request.timestamp_end = time.time()
        call.request_is_whole = True
        self._state = State.WAIT
        yield from self._hook(_hooks.HttpRequestHook, call.flow)
        if (yield from self._has_ended(call)):
            return
        yield from self._send(call, call.end_request())
        if call.response_is_whole:
            yield from self._finish(call)

    def _send(self, call: Call, data: bytes) -> Commands:
        """Write to the upstream of a call, unless that has ended: then its response has come."""
        if data and call.upstream is not None and call.upstream.can_write:
            yield from call.upstream.send(data)

    # -- to the upstream --------------------------------------------------------------------------

    def _connect(self, call: Call) -> Commands:
        """Send the request as soon as there is a connection for it."""
        data = call.flow.request.data
        via = call.flow.server_conn.via
        destination = Destination(data.host, data.port, data.scheme == b"https", via)
        known = self._upstreams.find(destination)
        if known is not None and known.is_usable:
            call.upstream = known
            yield from self._send_request(call, known)
            return
        if known is not None:
            yield from self._drop(known)  # the event of its end still waits for its turn
        upstream = call.upstream = self._upstreams.make(destination)
        yield from upstream.open()

    def _upstream_opened(self, upstream: Upstream, error: str | None) -> Commands:
        call = self._call
        is_awaited = call is not None and call.upstream is upstream
        if error:
            self._upstreams.remove(upstream)
        if call is None or not is_awaited:
            yield from self._drop(upstream)
        elif error:
            yield from self._fail(call, error)
        else:
            yield from self._send_request(call, upstream)

    def _send_request(self, call: Call, upstream: Upstream) -> Commands:
        call.flow.server_conn = upstream.connection
        head = call.write_head()
        if call.is_streamed:
            yield from upstream.send(head)
            yield from self._pass_request(call, call.take_held())
            if self._call is call and self._state is State.BODY:
                yield from self._read_body(call)  # what has come meanwhile
            return
        content = call.write_content()
        if len(content) <= LARGEST_JOINED_BYTES:
            yield from upstream.send(head + content)
        else:
            yield from upstream.send(head)
            yield from upstream.send(content)

    def _drop(self, upstream: Upstream) -> Commands:
        self._upstreams.remove(upstream)
        yield commands.CloseConnection(upstream.transport)

    # -- the response -----------------------------------------------------------------------------

    def _take_from_upstream(self, upstream: Upstream, data: bytes) -> Commands:
        call = self._call
        if call is None or call.upstream is not upstream or not call.is_sent:
            yield from self._drop(upstream)  # nobody has asked
        elif call.response_is_whole:
            upstream.buffer += data[:1]  # so that it serves no other call
        elif call.response_has_begun:
            yield from self._pass_response(call, upstream, data)
        else:
            upstream.buffer += data
            yield from self._read_response_head(call, upstream)

    def _read_response_head(self, call: Call, upstream: Upstream) -> Commands:
        try:
            response = call.response_head.read(upstream.buffer)
            if response is None:
                return
            call.begin_response(response)
        except ValueError as error:
            yield from self._fail(call, response_heads.CORES_PREFIX + str(error))
            return
        yield from self._hook(_hooks.HttpResponseHeadersHook, call.flow)
        if not (yield from self._has_ended(call)):
            head = call.write_response_head()
            yield from self._pass_response(call, upstream, upstream.take_all(), head)

    def _pass_response(
        self, call: Call, upstream: Upstream, data: bytes, head: bytes = b""
    ) -> Commands:
        """Pass on what has come of a response body, behind its head if that is still to be sent."""
        body = call.response_body
        data = body.feed(data)
        written = [head, *(call.pass_response(data) if data else ())]
        if body.is_whole and call.response_is_passed:
            written += call.pass_response(b"")
        yield from self._write(written)
        if body.fault is not None:
            yield from self._fail(call, f"HTTP/1 protocol error: {body.fault}")
        elif body.is_whole:
            upstream.buffer += body.take_surplus()
            yield from self._end_response(call)

    def _write(self, parts: list[bytes]) -> Commands:
        """Send parts to the client, small ones together."""
        joined = b""
        for part in parts:
            if not joined:
                joined = part
            elif len(joined) + len(part) <= LARGEST_JOINED_BYTES:
                joined += part
            else:
                yield commands.SendData(self._client, joined)
                joined = part
        if joined:
            yield commands.SendData(self._client, joined)

    def _end_response(self, call: Call) -> Commands:
        call.keep_response()
        call.response.timestamp_end = time.time()
        yield from self._hook(_hooks.HttpResponseHook, call.flow)
        call.response_is_whole = True
        if _is_killed(call.flow):
            yield from self._end(call)
            yield commands.CloseConnection(self._client)
            return
        yield from self._write([call.end_response()])
        if call.request_is_whole:
            yield from self._finish(call)

    def _respond(self, call: Call) -> Commands:
        """Send a response that an addon has made."""
        flow = call.flow
        call.response.timestamp_start = time.time()
        yield from self._hook(_hooks.HttpResponseHeadersHook, flow)
        if (yield from self._has_ended(call)):
            return
        call.response.timestamp_end = time.time()
        call.response_is_whole = True
        yield from self._hook(_hooks.HttpResponseHook, flow)
        yield from self._write([call.write_whole_response()])
        yield from self._finish(call)

    def _upstream_closed(self, upstream: Upstream) -> Commands:
        call = self._call
        yield from self._drop(upstream)
        if call is None or call.upstream is not upstream:
            return
        if call.response_is_whole:
            yield from self._refuse_rest(call)
        elif not call.response_has_begun:
            held = bytes(upstream.buffer._data)
            words = f"unexpected server response: {held!r}" if held else "server closed connection"
            yield from self._fail(call, words)
        elif isinstance(call.response_body, framing.ToEnd):
            yield from self._write(call.pass_response(b"") if call.response_is_passed else [])
            yield from self._end_response(call)
            if self._call is call:
                yield from self._refuse_rest(call)
        else:
            yield from self._fail(call, "HTTP/1 protocol error: the connection ended in a body")

    # -- ends -------------------------------------------------------------------------------------

    def _finish(self, call: Call) -> Commands:
        """Make ready for the next request, or close."""
        call.forget()
        self._call = None
        is_last, upstream = call.is_last(), call.upstream
        if upstream is not None and (is_last or upstream.buffer):
            yield from self._drop(upstream)
        if is_last:
            self._state = State.DONE
            yield commands.CloseConnection(self._client)
            return
        self._state = State.HEAD
        if self.input.buffer:
            self.input.waits_for_turn = True
            yield commands.RequestWakeup(0)

    def _go_on(self) -> Commands:
        """Deal with what has waited for its turn."""
        held = self.input
        if held.waits_for_turn:
            held.waits_for_turn = False
            if self._state is State.HEAD and not held.is_refused:
                yield from self._read_head()
        elif held.is_postponed:
            held.is_postponed = False
            if self._state is State.BODY and self._call is not None:
                yield from self._read_body(self._call)
                chunked.rest.take_s()  # nobody else does after a wakeup

    def _has_ended(self, call: Call) -> layer.CommandGenerator[bool]:
        """Return whether an addon or its client has ended a call while a hook ran, and end it then."""
        flow = call.flow
        # Where it has left, the event of that still waits for its turn.
        has_left = not self._client.state & ConnectionState.CAN_READ
        if not has_left and not _is_killed(flow):
            return False
        if not flow.error:
            flow.error = flows.Error(CLIENT_LEFT)
        yield from self._hook(_hooks.HttpErrorHook, flow)
        yield from self._end(call)
        if self._client.state & ConnectionState.CAN_WRITE:
            yield commands.CloseConnection(self._client)
        return True

    def _client_closed(self) -> Commands:
        self._heads.forget(self._client.id)
        self.input.waits_for_turn = self.input.is_postponed = False
        yield from self._client_gone()

    def _client_gone(self) -> Commands:
        """End the call of a client that has left, or is to."""
        call = self._call
        if self._client.state is not ConnectionState.CLOSED:
            yield commands.CloseConnection(self._client)
        self._state = State.DONE
        self.input.forget()
        if call is not None:
            yield from self._end(call)
            if not call.response_is_whole:
                call.flow.error = flows.Error(CLIENT_LEFT)
                yield from self._hook(_hooks.HttpErrorHook, call.flow)

    def _bad_body(self, call: Call, fault: str) -> Commands:
        """Tell a client that its body is not one."""
        if not call.response_is_passed:
            yield commands.SendData(
                self._client, own_responses.make_protocol_error(400, "HTTP/1 protocol error")
            )
        yield from self._end(call)
        yield from self._linger()
        if not call.response_is_whole:
            call.flow.error = flows.Error(f"HTTP/1 protocol error: {fault}")
            yield from self._hook(_hooks.HttpErrorHook, call.flow)

    def _fail(self, call: Call, message: str) -> Commands:
        """End a call that its upstream did not finish."""
        yield from self._end(call)
        call.flow.error = flows.Error(message)
        yield from self._hook(_hooks.HttpErrorHook, call.flow)
        if self._client.state & ConnectionState.CAN_WRITE:
            if not call.response_is_passed:
                yield commands.SendData(
                    self._client, own_responses.make_protocol_error(502, message)
                )
            if call.request_is_whole:
                yield commands.CloseConnection(self._client)
            else:
                yield from self._linger()

    def _end(self, call: Call) -> Commands:
        """Let go of a call, after which the connection serves no other."""
        self._call, self._state = None, State.DONE
        self.input.forget()
        call.forget()
        if call.upstream is not None:
            yield from self._drop(call.upstream)

    def _refuse(self, refusal: Refusal) -> Commands:
        """Respond to a head that cannot be taken."""
        yield from self._send_last(own_responses.assemble(own_responses.to_response(refusal)))

    def _refuse_rest(self, call: Call) -> Commands:
        """End a call whose response is whole, and whose upstream takes no more of the request."""
        yield from self._end(call)
        yield from self._linger()

    def _linger(self) -> Commands:
        """Close our side only, and throw away what still comes: to close all of a connection with bytes
        unread would reset it, and with it what the client has not read of its response."""
        self._state = State.DONE
        self.input.refuse()
        self._hold(0)
        # Until its client closes too, or for as long as a head may take.
        self._heads.await_rest(self._client.id)
        yield commands.CloseTcpConnection(self._client, half_close=True)

    def _send_last(self, raw: bytes) -> Commands:
        yield commands.SendData(self._client, raw)
        yield from self._linger()

    def let_go(self) -> None:
        """Break the cycles of a connection that has ended."""
        self._upstreams.let_go()
        self.context.layers.clear()
        vars(self).clear()


def _nothing() -> Commands:
    yield from ()


def _is_killed(flow: http.HTTPFlow) -> bool:
    return flow.error is not None and flow.error.msg == flows.Error.KILLED_MESSAGE


def _find_fault(request: http.Request) -> str | None:
    if request.data.method == b"CONNECT":
        return "mitmproxy received an HTTP CONNECT request"
    if request.data.scheme not in (b"http", b"https", b""):
        return "Invalid request scheme"
    return None


class _Ended:
    """Takes the place of the layer of a connection that has ended, for events that come late."""

    def handle_event(self, _event: events.Event) -> Commands:
        return _nothing()


class ChooseHttp1:
    """The addon that chooses the layer for every client connection, and lets it go."""

    def __init__(self, name: str, hooks: HookTable | None = None) -> None:
        """Run hooks by a table, or let mitmproxy run them.

        ``name`` is "nextlayer" where it takes the place of mitmproxy's addon of that name."""
        self.name = name
        self._hooks = hooks

    def next_layer(self, chosen: layer.NextLayer) -> None:
        """Choose it, whatever another addon chose before."""
        above = [each for each in chosen.context.layers if each is not chosen.layer]
        chosen.context.layers[:] = above
        chosen.layer = Http1Layer(chosen.context, self._hooks)

    async def taximeter_awaited(self, work: Awaitable[object]) -> None:
        """Wait for what a handler of a hook has left to be awaited."""
        await work

    def client_disconnected(self, client: mitmproxy_connection.Client) -> None:
        """Let the connection's objects go, which hold each other."""
        handler: ConnectionHandler | None = ctx.master.addons.get("proxyserver").connections.get(
            client.id
        )
        if handler is None:
            return
        if isinstance(handler.layer, Http1Layer):
            handler.layer.let_go()
        handler.layer = _Ended()  # type: ignore[assignment]
        handler.timeout_watchdog.callback = None  # type: ignore[assignment]
