"""A client connection and its upstreams, as a state machine.

It takes the place of mitmproxy's ``HttpLayer`` and all below it, makes the same flows, and runs the same
hooks. This file has the events, and requests up to the upstream; ``responses`` has what follows. A client
has one call at a time; the states (``ClientSide.state``) are those of what the client sends:

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

A request that is held is sent once it is whole, one that is streamed once its upstream is connected. Until
then the rest of it stays in ``ClientInput``, and ``connection_reading`` reads only a little more.
"""

import time
from typing import ClassVar

from mitmproxy import ctx, flow as flows, http
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers.http import _hooks

from addon import errors, own_responses
from addon.core import head_bounds
from addon.core.read_policy import ReadPolicy
from addon.errors import Refusal
from addon.headers import index_of
from addon.http1 import chunked, framing, heads
from addon.http1.call import Call
from addon.http1.chunked import InChunks
from addon.http1.client_side import ClientSide, State, join_small
from addon.http1.framing import KnownLength
from addon.http1.hook_table import Hooks, HookTable
from addon.http1.responses import Responses
from addon.http1.upstream import Commands, Destination, Opened, Upstream, Upstreams

MAX_EARLY_BYTES = 256 * 1024
"""The limit on requests sent before the response to the first one: SDKs send none, test programs few."""
TLS_RECORD = 0x16
"""The first byte from a client that uses TLS. It sends no more before it gets a response."""


class Http1Layer(layer.Layer):
    """One client connection: the handling of its events and of its requests."""

    policy: ClassVar[ReadPolicy]

    def __init__(self, here: context.Context, table: HookTable | None = None) -> None:
        """Make the layer of a client connection. ``table`` runs its hooks, mitmproxy if it is None."""
        super().__init__(here)
        self.client = ClientSide(here.client, self.policy.heads)
        self.input = self.client.input
        self.upstreams = Upstreams(here)
        self._hooks = Hooks(self.input, table)
        self._responses = Responses(self.client, self.upstreams, self._hooks)

    # -- events -----------------------------------------------------------------------------------

    def _handle_event(self, event: events.Event) -> Commands:
        if isinstance(event, events.ConnectionEvent):
            if event.connection is not self.client.connection:
                return self._receive(self.upstreams.find_of(event.connection), event)
            if isinstance(event, events.DataReceived):
                return self._take_from_client(event.data)
            return self._client_closed()
        if isinstance(event, events.Wakeup):
            return self._go_on()
        if isinstance(event, events.CommandCompleted):
            return self._receive(self.upstreams.find_awaiting(event.command), event)
        return self._take_place()

    def _take_place(self) -> Commands:
        """Have events sent to this layer directly, since the layers above would only pass them on."""
        proxyserver = ctx.master.addons.get("proxyserver")
        handler = proxyserver.connections.get(self.client.connection.id) if proxyserver else None
        if handler is not None:
            handler.layer = self
        yield from ()

    def _receive(self, upstream: Upstream | None, event: events.Event) -> Commands:
        if upstream is None:
            return
        for news in (yield from upstream.receive(event)):
            match news:
                case Opened():
                    yield from self._upstream_opened(upstream, news.error)
                case events.DataReceived():
                    yield from self._responses.take(upstream, news.data)
                case _:
                    yield from self._responses.upstream_closed(upstream)

    def _client_closed(self) -> Commands:
        self.client.heads.forget(self.client.connection.id)
        self.input.waits_for_turn = self.input.is_postponed = False
        return self._responses.client_gone()

    def _take_from_client(self, data: bytes) -> Commands:
        client, held = self.client, self.input
        if client.state is State.DONE or held.is_refused:
            return
        if client.state is State.BODY and client.call is not None:
            yield from self._read_body(client.call, data)
            return
        held.buffer += data
        if client.state is State.HEAD:
            if not held.waits_for_turn:
                yield from self._read_head()
        elif len(held.buffer) > MAX_EARLY_BYTES or not client.hold(len(held.buffer)):
            yield from self._responses.client_gone()

    def _go_on(self) -> Commands:
        """Handle data that has waited for its turn."""
        client, held = self.client, self.input
        if held.waits_for_turn:
            held.waits_for_turn = False
            if client.state is State.HEAD and not held.is_refused:
                yield from self._read_head()
        elif held.is_postponed:
            held.is_postponed = False
            if client.state is State.BODY and client.call is not None:
                yield from self._read_body(client.call)
                chunked.rest.take_s()  # nobody else does after a wakeup

    # -- the head of a request --------------------------------------------------------------------

    def _read_head(self) -> Commands:
        client, buffer = self.client, self.input.buffer
        heads.skip_empty_lines(buffer)
        excess = head_bounds.find_excess(buffer._data, client.heads.largest_bytes)
        if excess is not None:
            client.heads.count_too_large()
            yield from self._refuse(errors.head_too_large(excess))
            return
        head = heads.take_head(buffer)
        if head is None:
            yield from self._await_rest_of_head()
            return
        client.heads.is_whole(client.connection.id)
        client.hold(0)  # what is behind it is its body, and counts as that
        try:
            request = heads.parse_request(head)
        except heads.BadLineError as error:
            yield from self._refuse(errors.bad_header(str(error)))
            return
        except ValueError as error:
            yield from self.client.send_last(own_responses.make_protocol_error(400, str(error)))
            return
        yield from self._begin(request)

    def _await_rest_of_head(self) -> Commands:
        buffer = self.input.buffer
        if not buffer:
            return
        self.client.heads.await_rest(self.client.connection.id)
        if buffer._data[0] == TLS_RECORD:
            words = "This port speaks plain HTTP: use http:// to reach it."
            yield from self._refuse(errors.protocol_error(400, words))
        elif not self.client.hold(len(buffer)):
            yield from self._refuse(errors.MEMORY_FULL)

    def _refuse(self, refusal: Refusal) -> Commands:
        """Send a refusal of a head that is not accepted, and end the connection."""
        return self.client.send_last(own_responses.write_last(refusal))

    def _begin(self, request: http.Request) -> Commands:
        flow = http.HTTPFlow(self.client.connection, self.context.server)
        flow.request, flow.live = request, True
        try:
            size = heads.measure_request(request)
        except ValueError as error:
            yield from self._refuse_flow(flow, str(error))
            return
        server = self.context.server
        request.data.host, request.data.port = server.address or ("", 0)
        request.data.scheme = b"https" if server.tls else b"http"
        request.stream = size is not None and size > self.policy.largest_held_bytes
        call = self.client.call = Call(flow, framing.read_body(size))
        self.client.state = State.BODY
        yield from self._hooks.run(_hooks.HttpRequestHeadersHook, flow)
        if (yield from self._responses.has_ended(call)):
            return
        yield from self._await_body(call)

    def _refuse_flow(self, flow: http.HTTPFlow, fault: str) -> Commands:
        """Respond to a request that mitmproxy would refuse, and run the error hook."""
        flow.error = flows.Error(fault)
        yield from self._hooks.run(_hooks.HttpRequestHeadersHook, flow)
        yield from self._hooks.run(_hooks.HttpErrorHook, flow)
        yield from self.client.send_last(own_responses.make_protocol_error(400, fault))

    def _await_body(self, call: Call) -> Commands:
        request = call.flow.request
        if index_of(request.headers).get(b"expect", b"").lower() == b"100-continue":
            if request.data.http_version != b"HTTP/1.0":  # which knows no interim responses
                yield commands.SendData(self.client.connection, b"HTTP/1.1 100 Continue\r\n\r\n")
            del request.headers[b"expect"]
        if request.stream and not call.request_body.is_whole and call.flow.response is None:
            call.is_streamed = True
            yield from self._connect(call)
        if self.client.call is call and not call.is_sent:
            yield from self._read_body(call)

    # -- the body of a request --------------------------------------------------------------------

    def _read_body(self, call: Call, data: bytes = b"") -> Commands:
        """Handle received data of a request body: what was kept, and ``data`` behind it."""
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
            self.client.hold(len(surplus))
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
            yield from self._responses.has_ended(call)
        elif body.fault is not None:
            yield from self._responses.refuse_body(call, body.fault)
        elif body.is_whole:
            yield from self._request_held(call)
        elif isinstance(body, KnownLength):
            self.input.left_bytes = body.left

    def _request_held(self, call: Call) -> Commands:
        """Handle a complete request: send it, or the response that an addon has set."""
        flow = call.flow
        self.input.left_bytes = 0
        flow.request.timestamp_end = time.time()
        flow.request.data.content = call.take_held()
        call.request_is_whole = True
        self.client.state = State.WAIT
        yield from self._hooks.run(_hooks.HttpRequestHook, flow)
        if (yield from self._responses.has_ended(call)):
            return
        if flow.response is not None:
            yield from self._responses.respond(call)
        else:
            yield from self._connect(call)

    def _pass_request(self, call: Call, data: bytes) -> Commands:
        """Send a part of a streamed request, and its end if it is complete."""
        body = call.request_body
        if data:
            yield from self._send(call, call.pass_request(data))
        if body.fault is not None:
            yield from self._responses.refuse_body(call, body.fault)
        if not body.is_whole or self.client.call is not call:
            return
        yield from self._send(call, call.pass_request(b""))
        call.flow.request.timestamp_end = time.time()
        call.request_is_whole = True
        self.client.state = State.WAIT
        yield from self._hooks.run(_hooks.HttpRequestHook, call.flow)
        if (yield from self._responses.has_ended(call)):
            return
        yield from self._send(call, call.end_request())
        if call.response_is_whole:
            yield from self._responses.finish(call)

    def _send(self, call: Call, data: bytes) -> Commands:
        """Write to the upstream of a call, unless it was dropped because its response is complete."""
        if data and call.upstream is not None and call.upstream.can_write:
            yield from call.upstream.send(data)

    # -- to the upstream --------------------------------------------------------------------------

    def _connect(self, call: Call) -> Commands:
        """Send the request at once if a connection is open, otherwise when one has been opened."""
        data = call.flow.request.data
        via = call.flow.server_conn.via
        destination = Destination(data.host, data.port, data.scheme == b"https", via)
        known = self.upstreams.find(destination)
        if known is not None and known.is_usable:
            call.upstream = known
            yield from self._send_request(call, known)
            return
        if known is not None:
            yield from self.upstreams.drop(known)  # the event of its end still waits for its turn
        upstream = call.upstream = self.upstreams.make(destination)
        yield from upstream.open()

    def _upstream_opened(self, upstream: Upstream, error: str | None) -> Commands:
        call = self.client.call
        is_awaited = call is not None and call.upstream is upstream
        if error:
            self.upstreams.remove(upstream)
        if call is None or not is_awaited:
            yield from self.upstreams.drop(upstream)
        elif error:
            yield from self._responses.fail(call, error)
        else:
            yield from self._send_request(call, upstream)

    def _send_request(self, call: Call, upstream: Upstream) -> Commands:
        call.flow.server_conn = upstream.connection
        head = call.write_head()
        if call.is_streamed:
            yield from upstream.send(head)
            yield from self._pass_request(call, call.take_held())
            if self.client.call is call and self.client.state is State.BODY:
                yield from self._read_body(call)  # what has come meanwhile
            return
        for data in join_small((head, call.write_content())):
            yield from upstream.send(data)

    def let_go(self) -> None:
        """Break the reference cycles of a connection that has ended."""
        self.upstreams.let_go()
        self.context.layers.clear()
        vars(self).clear()
