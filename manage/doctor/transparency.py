"""The trial that shows whether a proxy with the settings of a service changes anything.

A proxy of our own (``trial_proxy``) is put in front of an upstream of our own (``echo``), so both ends
are known: bytes, headers, the timing of a stream, and what would be recorded. Nothing leaves this
machine."""

import gzip
import hashlib
import http.client
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from statistics import median

from manage.doctor.echo import PATIENCE_S, EchoUpstream, Headers, Response, Seen
from manage.doctor.findings import Finding
from manage.doctor.trial_proxy import SLUG, TrialError, TrialProxy, run_trial_proxy
from metering.formats import format_bytes
from runtime.safe_text import terminal_line
from runtime.settings import Settings
from store.spool.format import SpoolError

EVENTS = 20
BUFFERED_PATIENCE_S = 0.3
TARGET = "/v1/messages?beta=true"
_REPORT = "report it with the output of `taximeter doctor --echo --json`"
# Between the client and us, or the name of a machine.
_OF_THE_HOP = frozenset({"connection", "host", "keep-alive"})
# Browsers send it, and so does the fetch of Node.js. No upstream needs it.
_DROPPED = frozenset({"sec-fetch-mode"})

# Headers as these clients send them, besides those of the body.
CLIENTS: Mapping[str, Headers] = {
    "Python SDK": (
        ("Accept-Encoding", "gzip, deflate"),
        ("Connection", "keep-alive"),
        ("Accept", "application/json"),
        ("Content-Type", "application/json"),
        ("User-Agent", "Anthropic/Python 0.75.0"),
        ("X-Stainless-Lang", "python"),
        ("X-Stainless-Package-Version", "0.75.0"),
        ("X-Stainless-OS", "Linux"),
        ("X-Stainless-Arch", "x64"),
        ("X-Stainless-Runtime", "CPython"),
        ("X-Stainless-Runtime-Version", "3.13.0"),
        ("X-Stainless-Async", "false"),
        ("anthropic-version", "2023-06-01"),
        ("X-Api-Key", "made-up-by-taximeter-doctor"),
        ("x-stainless-retry-count", "0"),
        ("x-stainless-read-timeout", "600"),
    ),
    "TypeScript SDK": (
        ("connection", "keep-alive"),
        ("accept", "application/json"),
        ("content-type", "application/json"),
        ("user-agent", "Anthropic/JS 0.71.0"),
        ("x-stainless-retry-count", "0"),
        ("x-stainless-timeout", "600"),
        ("x-stainless-lang", "js"),
        ("x-stainless-package-version", "0.71.0"),
        ("x-stainless-os", "Linux"),
        ("x-stainless-arch", "x64"),
        ("x-stainless-runtime", "node"),
        ("x-stainless-runtime-version", "v22.0.0"),
        ("anthropic-version", "2023-06-01"),
        ("x-api-key", "made-up-by-taximeter-doctor"),
        ("accept-language", "*"),
        ("sec-fetch-mode", "cors"),
        ("accept-encoding", "br, gzip, deflate"),
    ),
    "Claude Code": (
        ("connection", "keep-alive"),
        ("accept", "application/json"),
        ("content-type", "application/json"),
        ("user-agent", "claude-cli/2.1.0 (external, cli)"),
        ("x-claude-code-session-id", "00000000-0000-4000-8000-000000000000"),
        ("x-app", "cli"),
        ("authorization", "Bearer made-up-by-taximeter-doctor"),
        ("anthropic-dangerous-direct-browser-access", "true"),
        ("anthropic-beta", "claude-code-20250219,oauth-2025-04-20"),
        ("anthropic-version", "2023-06-01"),
        ("x-stainless-helper-method", "stream"),
        ("accept-language", "*"),
        ("sec-fetch-mode", "cors"),
        ("accept-encoding", "br, gzip, deflate"),
    ),
}
_RESPONSE_HEADERS: Headers = (
    ("Date", "Thu, 01 Jan 2026 00:00:00 GMT"),
    ("Content-Type", "application/json"),
    ("request-id", "req_taximeter_doctor"),
    ("anthropic-organization-id", "00000000-0000-4000-8000-000000000000"),
    ("anthropic-ratelimit-requests-remaining", "3999"),
    ("retry-after", "7"),
    ("X-Unknown", "a  b"),
    ("set-cookie", "one=1"),
    ("set-cookie", "two=2"),
)


def check_transparency(settings: Settings, variables: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings on what a proxy with these settings changes in requests, responses and recording."""
    try:
        with EchoUpstream() as upstream, run_trial_proxy(variables, upstream.url) as proxy:
            yield from _check(upstream, proxy, settings)
    except TrialError as error:
        message = f"a proxy with these settings does not start: {terminal_line(str(error))}"
        yield Finding("echo", "wrong", message, "look at what `taximeter up` prints")
    except (OSError, http.client.HTTPException, SpoolError) as error:
        message = f"the trial with a proxy of its own failed: {terminal_line(str(error))}"
        yield Finding("echo", "wrong", message, "see whether `taximeter up` works on this machine")


def _check(upstream: EchoUpstream, proxy: TrialProxy, settings: Settings) -> Iterator[Finding]:
    sent: list[tuple[bytes, bytes]] = []
    for client, headers in CLIENTS.items():
        request, response = make_request(), make_response()
        upstream.response = response
        status, got_headers, got = send(proxy, headers, request)
        yield compare_request(client, headers, request, upstream.seen[-1])
        yield compare_response(client, response, status, got_headers, got)
        sent.append((request, response.body))
    is_buffered = settings.streaming == "buffered"
    stream = make_stream(BUFFERED_PATIENCE_S if is_buffered else PATIENCE_S)
    upstream.response = stream
    request = make_request()
    body, delays_s = send_stream(proxy, CLIENTS["Claude Code"], request, stream)
    yield judge_stream(stream, body, delays_s, is_buffered=is_buffered)
    sent.append((request, b"".join(stream.events)))
    spooled = [(each.request_body, each.response_body) for each in proxy.read_spooled()]
    yield compare_spooled(sent, spooled)


def make_request() -> bytes:
    """Return a request body that would change if it were parsed and written again."""
    words = "".join(random.choices("aäß“\N{OTTER}\\ \t", k=100_000))  # noqa: S311 - no secret
    text = json.dumps(words, ensure_ascii=False)
    return (
        '{ "model":"claude-haiku-4-5",\r\n"max_tokens" : 1e2, "stream":true , "stream":false,'
        f' "messages":[{{"role":"user","content":{text}}}],"\\u0061":1.0}} \n'
    ).encode()


def make_response() -> Response:
    """Return a compressed response, which would change if a proxy decoded it."""
    body = gzip.compress(random.randbytes(200_000))  # noqa: S311 - no secret
    return Response(headers=(*_RESPONSE_HEADERS, ("Content-Encoding", "gzip")), body=body)


def make_stream(patience_s: float = PATIENCE_S) -> Response:
    """Return a stream of small events, each of which has to arrive within ``patience_s``."""
    events = [
        f'event: ping\ndata: {{"type": "ping", "n": {number}, "ü": "\N{OTTER}"}}\n\n'.encode()
        for number in range(EVENTS)
    ]
    return Response(
        headers=(("Content-Type", "text/event-stream"),), events=events, patience_s=patience_s
    )


def send(proxy: TrialProxy, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    """Send a request; return status, headers and body of the response, without decoding it."""
    with closing(_begin(proxy, headers, body)) as connection:
        response = connection.getresponse()
        return response.status, response.getheaders(), response.read()


def send_stream(
    proxy: TrialProxy, headers: Headers, body: bytes, stream: Response
) -> tuple[bytes, Sequence[float]]:
    """Send a request; return the body of the response, and the delay of each event in seconds.

    The delay is the time from the event's sending to its arrival."""
    received = b""
    delays_s: list[float] = []
    ends = [sum(map(len, stream.events[: number + 1])) for number in range(len(stream.events))]
    with closing(_begin(proxy, headers, body)) as connection:
        response = connection.getresponse()
        while part := response.read1(65536):
            received += part
            while len(delays_s) < len(ends) and len(received) >= ends[len(delays_s)]:
                delays_s.append(time.monotonic() - stream.sent_s[len(delays_s)])
                stream.note_arrival()
    return received, delays_s


def _begin(proxy: TrialProxy, headers: Headers, body: bytes) -> http.client.HTTPConnection:
    # A held stream goes on after one wait.
    connection = http.client.HTTPConnection(proxy.host, proxy.port, timeout=3 * PATIENCE_S)
    connection.putrequest("POST", f"/proxy/{SLUG}{TARGET}", skip_accept_encoding=True)
    for name, value in (*headers, ("Content-Length", str(len(body)))):
        connection.putheader(name, value)
    connection.endheaders(body)
    return connection


def compare_request(client: str, headers: Headers, body: bytes, seen: Seen) -> Finding:
    """Check that a request reached the upstream unchanged."""
    name = "request"
    if (seen.method, seen.target) != ("POST", TARGET):
        message = f"{client}: POST {TARGET} became {terminal_line(f'{seen.method} {seen.target}')}"
        return Finding(name, "wrong", message, _REPORT)
    if seen.body != body:
        message = f"{client}: {_describe(body)} became {_describe(seen.body)}"
        return Finding(name, "wrong", message, _REPORT)
    wanted = [each for each in headers if each[0].lower() not in _OF_THE_HOP | _DROPPED]
    wanted.append(("Content-Length", str(len(body))))
    got = [each for each in seen.headers if each[0].lower() not in _OF_THE_HOP]
    if changes := describe_changes(wanted, got):
        advice = "see docs/headers.md; TAXIMETER_FORWARD_HEADERS forwards more"
        return Finding(name, "wrong", f"headers of {client}: {changes}", advice)
    message = f"{client}: {_describe(body)} and {len(wanted)} headers came unchanged"
    return Finding(name, "ok", message)


def compare_response(
    client: str, response: Response, status: int, headers: Headers, body: bytes
) -> Finding:
    """Check that a response reached the client unchanged."""
    name = "response"
    if status != response.status:
        message = f"{client}: status {response.status} became {status}: {terminal_line(body[:200].decode(errors='replace'))}"
        return Finding(name, "wrong", message, _REPORT)
    if body != response.body:
        message = f"{client}: {_describe(response.body)} became {_describe(body)}"
        return Finding(name, "wrong", message, _REPORT)
    wanted = [*response.headers, ("content-length", str(len(response.body)))]
    got = [each for each in headers if each[0].lower() not in _OF_THE_HOP]
    if changes := describe_changes(wanted, got):
        return Finding(name, "wrong", f"headers for {client}: {changes}", _REPORT)
    message = f"{client}: {_describe(body)} and {len(wanted)} headers came unchanged"
    return Finding(name, "ok", message)


def describe_changes(wanted: Headers, got: Headers) -> str:
    """Return text on the headers that are missing, added, changed or in another order, empty if none.

    Names are compared with their case."""
    if list(wanted) == list(got):
        return ""
    missing = sorted({name for name, _ in wanted} - {name for name, _ in got})
    added = sorted({name for name, _ in got} - {name for name, _ in wanted})
    changed = sorted(
        {
            name
            for name, _ in wanted
            if name not in missing
            and [text for each, text in wanted if each == name]
            != [text for each, text in got if each == name]
        }
    )
    parts = [
        f"{word} {', '.join(map(terminal_line, names))}"
        for word, names in (("missing", missing), ("added", added), ("changed", changed))
        if names
    ]
    return "; ".join(parts) or "in another order"


def judge_stream(
    stream: Response, body: bytes, delays_s: Sequence[float], *, is_buffered: bool
) -> Finding:
    """Check that each event arrived before the next one was sent."""
    name = "streaming"
    if body != b"".join(stream.events):
        message = f"{_describe(b''.join(stream.events))} became {_describe(body)}"
        return Finding(name, "wrong", message, _REPORT)
    if stream.was_held and is_buffered:
        message = "events come together at the end, since TAXIMETER_STREAMING is buffered"
        advice = (
            "set TAXIMETER_STREAMING=live, or `taximeter endpoints update SLUG --streaming live`"
        )
        return Finding(name, "note", message, advice)
    if stream.was_held:
        return Finding(name, "wrong", "events are held back", _REPORT)
    message = (
        f"each of {len(delays_s)} events came before the next was sent, after"
        f" {median(delays_s) * 1000:.1f} ms (at most {max(delays_s) * 1000:.1f} ms)"
    )
    return Finding(name, "ok", message)


def compare_spooled(
    sent: Sequence[tuple[bytes, bytes]], spooled: Sequence[tuple[bytes | None, bytes]]
) -> Finding:
    """Check that the recorded bodies are those that were sent."""
    name = "recording"
    if list(spooled) == list(sent):
        return Finding(name, "ok", f"both bodies of {len(sent)} calls are recorded as they went")
    message = f"{len(sent)} calls were made, and what is recorded of them is not what went"
    return Finding(name, "wrong", message, _REPORT)


def _describe(body: bytes) -> str:
    return f"{format_bytes(len(body))} (SHA-256 {hashlib.sha256(body).hexdigest()[:12]}…)"
