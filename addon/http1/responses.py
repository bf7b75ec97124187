"""The second half of a call: its response, and its end. The first half is in ``layer``."""

import time

from mitmproxy import flow as flows, http
from mitmproxy.proxy import commands, layer
from mitmproxy.proxy.layers.http import _hooks

from addon import own_responses
from addon.core import response_heads
from addon.http1.call import Call
from addon.http1.client_side import ClientSide, State
from addon.http1.framing import ToEnd
from addon.http1.hook_table import Hooks
from addon.http1.upstream import Commands, Upstream, Upstreams

CLIENT_LEFT = "Client disconnected."


class Responses:
    """Passes responses on to the client, and ends calls."""

    def __init__(self, client: ClientSide, upstreams: Upstreams, hooks: Hooks) -> None:
        self._client = client
        self._upstreams = upstreams
        self._hooks = hooks

    # -- what comes of the upstream ---------------------------------------------------------------

    def take(self, upstream: Upstream, data: bytes) -> Commands:
        """Handle data from an upstream."""
        call = self._client.call
        if call is None or call.upstream is not upstream or not call.is_sent:
            yield from self._upstreams.drop(upstream)  # nobody has asked
        elif call.response_is_whole:
            upstream.buffer += data[:1]  # so that it serves no other call
        elif call.response_has_begun:
            yield from self._pass_on(call, upstream, data)
        else:
            upstream.buffer += data
            yield from self._read_head(call, upstream)

    def _read_head(self, call: Call, upstream: Upstream) -> Commands:
        try:
            response = call.response_head.read(upstream.buffer)
            if response is None:
                return
            call.begin_response(response)
        except ValueError as error:
            yield from self.fail(call, response_heads.CORES_PREFIX + str(error))
            return
        yield from self._hooks.run(_hooks.HttpResponseHeadersHook, call.flow)
        if not (yield from self.has_ended(call)):
            head = call.write_response_head()
            yield from self._pass_on(call, upstream, upstream.take_all(), head)

    def _pass_on(self, call: Call, upstream: Upstream, data: bytes, head: bytes = b"") -> Commands:
        """Pass on received data of a response body, after ``head`` if that is still to be sent."""
        body = call.response_body
        data = body.feed(data)
        written = [head, *(call.pass_response(data) if data else ())]
        if body.is_whole and call.response_is_passed:
            written += call.pass_response(b"")
        yield from self._client.send(written)
        if body.fault is not None:
            yield from self.fail(call, f"HTTP/1 protocol error: {body.fault}")
        elif body.is_whole:
            upstream.buffer += body.take_surplus()
            yield from self._end_response(call)

    def _end_response(self, call: Call) -> Commands:
        call.keep_response()
        call.response.timestamp_end = time.time()
        yield from self._hooks.run(_hooks.HttpResponseHook, call.flow)
        call.response_is_whole = True
        if is_killed(call.flow):
            yield from self._let_go(call)
            yield from self._client.close()
            return
        yield from self._client.send([call.end_response()])
        if call.request_is_whole:
            yield from self.finish(call)

    def upstream_closed(self, upstream: Upstream) -> Commands:
        """Handle the end of an upstream connection: it ends the response if that lasts to the end, or the
        call."""
        call = self._client.call
        yield from self._upstreams.drop(upstream)
        if call is None or call.upstream is not upstream:
            return
        if call.response_is_whole:
            yield from self._refuse_rest(call)
        elif not call.response_has_begun:
            held = bytes(upstream.buffer._data)
            words = f"unexpected server response: {held!r}" if held else "server closed connection"
            yield from self.fail(call, words)
        elif isinstance(call.response_body, ToEnd):
            yield from self._client.send(call.pass_response(b"") if call.response_is_passed else [])
            yield from self._end_response(call)
            if self._client.call is call:
                yield from self._refuse_rest(call)
        else:
            yield from self.fail(call, "HTTP/1 protocol error: the connection ended in a body")

    # -- what an addon responds -------------------------------------------------------------------

    def respond(self, call: Call) -> Commands:
        """Send a response that an addon has set."""
        flow = call.flow
        call.response.timestamp_start = time.time()
        yield from self._hooks.run(_hooks.HttpResponseHeadersHook, flow)
        if (yield from self.has_ended(call)):
            return
        call.response.timestamp_end = time.time()
        call.response_is_whole = True
        yield from self._hooks.run(_hooks.HttpResponseHook, flow)
        yield from self._client.send([call.write_whole_response()])
        yield from self.finish(call)

    # -- ends -------------------------------------------------------------------------------------

    def finish(self, call: Call) -> Commands:
        """Prepare for the next request on the connection, or close it after the last."""
        client, upstream, is_last = self._client, call.upstream, call.is_last()
        call.forget()
        client.call = None
        if upstream is not None and (is_last or upstream.buffer):
            yield from self._upstreams.drop(upstream)
        if is_last:
            yield from client.close()
            return
        client.state = State.HEAD
        if client.input.buffer:
            client.input.waits_for_turn = True
            yield commands.RequestWakeup(0)

    def has_ended(self, call: Call) -> layer.CommandGenerator[bool]:
        """Return whether an addon or the client ended the call while a hook ran; if so, end it."""
        flow, client = call.flow, self._client
        if not client.has_left and not is_killed(flow):
            return False
        if not flow.error:
            flow.error = flows.Error(CLIENT_LEFT)
        yield from self._hooks.run(_hooks.HttpErrorHook, flow)
        yield from self._let_go(call)
        if client.can_write:
            yield from client.close()
        return True

    def client_gone(self) -> Commands:
        """End the connection and the call of a client that has left or has to be disconnected."""
        call, client = self._client.call, self._client
        yield from client.close()
        client.input.forget()
        if call is not None:
            yield from self._let_go(call)
            if not call.response_is_whole:
                yield from self._report(call, CLIENT_LEFT)

    def refuse_body(self, call: Call, fault: str) -> Commands:
        """Respond 400 to an invalid request body, unless a response has begun, and end the call."""
        words = "HTTP/1 protocol error"
        if not call.response_is_passed:
            yield from self._client.send([own_responses.make_protocol_error(400, words)])
        yield from self._refuse_rest(call)
        if not call.response_is_whole:
            yield from self._report(call, f"{words}: {fault}")

    def fail(self, call: Call, message: str) -> Commands:
        """End a call whose upstream failed, with 502 unless a response has begun."""
        client = self._client
        yield from self._let_go(call)
        yield from self._report(call, message)
        if client.can_write:
            if not call.response_is_passed:
                yield from client.send([own_responses.make_protocol_error(502, message)])
            yield from client.close() if call.request_is_whole else client.linger()

    def _refuse_rest(self, call: Call) -> Commands:
        """End a call and discard the rest of its request."""
        yield from self._let_go(call)
        yield from self._client.linger()

    def _report(self, call: Call, message: str) -> Commands:
        """Run the error hook for a call, with the reason."""
        call.flow.error = flows.Error(message)
        yield from self._hooks.run(_hooks.HttpErrorHook, call.flow)

    def _let_go(self, call: Call) -> Commands:
        """Forget a call and its upstream. The connection serves no other call afterwards."""
        client = self._client
        client.call, client.state = None, State.DONE
        client.input.forget()
        call.forget()
        if call.upstream is not None:
            yield from self._upstreams.drop(call.upstream)


def is_killed(flow: http.HTTPFlow) -> bool:
    """Return whether an addon has killed a flow."""
    return flow.error is not None and flow.error.msg == flows.Error.KILLED_MESSAGE
