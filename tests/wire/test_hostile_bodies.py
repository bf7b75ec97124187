"""Readers of ``wire/`` are run over bodies that were made to cost much, each that takes bytes.

Time is that of the processor, and compared between a body and one of an eighth of its size: what is in
proportion takes eight times as long, or up to 15 times if the larger one outgrows a cache of the processor,
what is not 64 times.
"""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from math import inf
from time import thread_time
from typing import Any

import pytest

import wire
from tests import ROOT
from tests.processor_time import without_collector
from wire.batch_results import parse_result
from wire.chat_completions import read_chat, read_chat_envelope
from wire.content import find_fallbacks, list_content, read_content
from wire.conversation_memory import ConversationMemory, shared_length
from wire.decode import GrowingBody, decode_body
from wire.envelope import is_document, parse_event, read_envelope
from wire.json_reading import decode_string, parse_json, parse_object
from wire.json_weight import is_light
from wire.managed_objects import find_session_usage, list_objects
from wire.repeated_requests import RepeatedRequests
from wire.request import Request
from wire.request_fields import FieldsAnalysis
from wire.request_parts import find_last_starts
from wire.request_places import list_blocks, place_request
from wire.request_strings import Position
from wire.response import GrowingResponse
from wire.sse import looks_like_sse, normalize_lines, parse_events, sample_events
from wire.threads import Exchange, join_thread, make_answer
from wire.title import find_title

LARGEST = 33 * 1024 * 1024  # what upstream takes is a little less
# So many repetitions that copying the rest of a body at each of them outweighs what else a reader does there,
# which takes the longer, the longer they are.
REPETITIONS, LEAST_BYTES, MOST_BYTES = 20_000, 128 * 1024, 1024 * 1024
SHARE, MOST_GROWTH, NOTICED_S = 8, 32, 0.01
FEED_BYTES = 4 * 1024  # of a response that grows
PROCESS_BYTES, MOST_PER_BYTE, MOST_CPU_S = 64 * 1024 * 1024, 22, 100

_DELTA = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}'
_START = b'data: {"type":"content_block_start","index":%d,"content_block":{"type":"tool_use"}}\n\n'
_CHAT = (
    b'data: {"object":"chat.completion.chunk","choices":[{"delta":{"role":"","content":"a"}}]}\n\n'
)
_SESSION = b'{"type":"session","id":"a","usage":{}}'
_IN_MESSAGE = b'{"model":"m","messages":[{"role":"user","content":'

# What a body begins with, what it repeats, and what it ends with.
BODIES = {
    "nothing but line ends": (b"", b"\n", b""),
    "nothing but carriage returns": (b"data: {}", b"\r", b""),
    "zeros": (b"", b"\0", b""),
    "bytes that are no UTF-8": (_IN_MESSAGE + b'"', b"\xff\xc0\xed\xa0\x80", b'"}]}'),
    "lists in lists": (_IN_MESSAGE, b"[", b""),
    "objects in objects": (_IN_MESSAGE, b'{"content":', b""),
    "content in content": (_IN_MESSAGE, b'[{"type":"tool_result","content":', b""),
    "closing brackets": (_IN_MESSAGE, b"]}", b""),
    "one text": (_IN_MESSAGE + b'"', b"a", b'"}]}'),
    "a text without an end": (_IN_MESSAGE + b'"', b"a", b""),
    "quotes": (_IN_MESSAGE, b'"', b""),
    "escaped quotes": (_IN_MESSAGE + b'"', b'\\"', b""),
    "lone surrogates": (_IN_MESSAGE + b'"', b"\\ud83d", b'"}]}'),
    "reminders": (_IN_MESSAGE + b'"', b"<system-reminder></system-reminder> ", b'"}]}'),
    "reminders without an end": (_IN_MESSAGE + b'"', b"<system-reminder>", b'"}]}'),
    "one number": (_IN_MESSAGE, b"9", b"}]}"),
    "huge numbers": (_IN_MESSAGE + b"[", b"1e999,-9999999999999999999999,", b"NaN]}]}"),
    "small blocks": (_IN_MESSAGE + b"[", b'{"type":"text","text":"a"},', b"{}]}]}"),
    "small messages": (b'{"messages":[', b'{"role":"user","content":"a"},', b"{}]}"),
    "same keys": (b"{", b'"messages":[],', b'"model":"m"}'),
    "same keys of a usage": (b'{"usage":{', b'"input_tokens":1,', b'"output_tokens":1}}'),
    "passes": (b'{"type":"message","usage":{"iterations":[', b'{"input_tokens":1},', b"{}]}}"),
    "blocks of an answer": (b'{"type":"message","content":[', b'{"type":"text"},', b"{}]}"),
    "small events": (b"", _DELTA + b"\n\n", b""),
    "events with carriage returns": (b"", _DELTA + b"\r\r", b""),
    "starts of blocks": (b"", _START % 1, b""),
    "lines of one event": (b"", b"data: 1\n", b""),
    "an event without an end": (_DELTA[:-2], b"a", b""),
    "comments": (b"data: {}\n\n", b":\n\n", b""),
    "names of events": (b"", b"event: message_start\n\n", b""),
    "parts of a chat": (b"", _CHAT, b""),
    "objects of a list": (b'{"data":[', _SESSION + b",", b"{}]}"),
    "counts of a session": (
        b"",
        b'data: {"type":"session.usage","usage":{},"processed_at":"2026-11-20T10:00:00Z"}\n\n',
        b"",
    ),
    "unlike keys": (b'{"messages":[{', b"%keys", b'"z":1}]}'),
}


def make_body(name: str, size: int) -> bytes:
    first, repeated, last = BODIES[name]
    if repeated == b"%keys":
        return first + b"".join(b'"%d":1,' % key for key in range(size // 12)) + last
    return first + repeated * ((size - len(first) - len(last)) // len(repeated)) + last


def _read_request(body: bytes) -> None:
    request = Request.parse(body)
    if request is None:
        return
    for message in request.messages:
        message.normalize()
        for block in message.blocks:
            block.list_parts()
    for name in ("settings", "system", "tools", "mcp_servers", "has_attribution", "ttl", "thread"):
        getattr(request, name)
    find_title(parts if isinstance(parts := request.settings.get("messages"), list) else [])


def _read_places(body: bytes) -> None:
    text = place_request(body)
    for block in list_blocks(text) if text else ():
        list(block.list_parts())


def _read_growing(body: bytes) -> None:
    response = GrowingResponse()
    for start in range(0, len(body), FEED_BYTES):
        response.feed(body[start : start + FEED_BYTES])
    response.finish()
    _ = response.envelope.usage, response.content.read


def _read_repeated(body: bytes) -> None:
    requests = RepeatedRequests([FieldsAnalysis()])
    requests.read(body)
    requests.read(body + b" ")


def _read_answer(body: bytes) -> None:
    for block in read_content(body).blocks:
        block.to_fields()


def _read_events(body: bytes) -> None:
    for event in parse_events(body, [b"usage", b"content_block_start"]):
        parse_event(event)
    for _ in parse_events(body):
        pass


def _keep(body: bytes) -> None:
    memory = ConversationMemory()
    memory.find_opening(body)
    memory.shared_length(body, body + b" ")


READERS: dict[str, Callable[[bytes], object]] = {
    "batch_results.parse_result": parse_result,
    "chat_completions.read_chat": read_chat,
    "chat_completions.read_chat_envelope": read_chat_envelope,
    "content.read_content": _read_answer,
    "content.list_content": lambda body: list_content(read_envelope(body), body),
    "content.find_fallbacks": lambda body: find_fallbacks(body, 9),
    "conversation_memory.ConversationMemory.find_opening": _keep,
    "conversation_memory.shared_length": lambda body: shared_length(body, body + b" "),
    "decode.decode_body": lambda body: decode_body(body, "gzip, br, zstd"),
    "decode.GrowingBody.feed": lambda body: GrowingBody("deflate").feed(body),
    "envelope.read_envelope": lambda body: read_envelope(body).usage,
    "envelope.is_document": is_document,
    "json_reading.parse_json": parse_json,
    "json_reading.parse_object": parse_object,
    "json_reading.decode_string": decode_string,
    "json_weight.is_light": lambda body: is_light(body, 1000),
    "managed_objects.find_session_usage": find_session_usage,
    "managed_objects.list_objects": lambda body: list_objects("session", body),
    "repeated_requests.RepeatedRequests.read": _read_repeated,
    "request.Request.parse": _read_request,
    "request_parts.find_last_starts": lambda body: find_last_starts(body, b',{"role":', 0),
    "request_places.place_request": _read_places,
    "request_strings.Position.walk": lambda body: Position().walk(body),
    "response.GrowingResponse.feed": _read_growing,
    "sse.parse_events": _read_events,
    "sse.normalize_lines": normalize_lines,
    "sse.sample_events": lambda body: sample_events(body, 9_000, 3),
    "sse.looks_like_sse": looks_like_sse,
    "threads.join_thread": lambda body: join_thread([Exchange(body, body)], body),
    "threads.make_answer": make_answer,
}
# What takes bytes that one of the readers has found, or has parsed already, and may raise for others.
WITHIN_OTHERS = {
    "batch_results.BatchResult.__init__",
    "conversation_memory.ConversationMemory.shared_length",
    "conversation_memory.Findings.guess_key",
    "conversation_memory.Findings.keep",
    "conversation_memory.Findings.shared_length",
    "decode.DecodedBody.__init__",
    "envelope.parse_event",
    "json_places.JsonText.__init__",
    "json_places.JsonText.is_kind",
    "repeated_requests.Analysis.begin",
    "repeated_requests.Analysis.read_whole",
    "repeated_requests.Beginning.add",
    "request_fields.FieldsAnalysis.begin",
    "request_fields.FieldsAnalysis.read_whole",
    "request_fields.read_fields",
    "request_parts.find_first_message",
    "request_parts.parse_head",
    "request_parts.parse_messages",
    "request_parts.parse_tail",
}


def list_readers() -> Iterator[str]:
    """Yield the public functions and methods of ``wire/`` that take bytes."""
    for info in pkgutil.walk_packages(wire.__path__, "wire."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != info.name:
                continue
            found: dict[str, Any] = {name: value} if inspect.isfunction(value) else {}
            if inspect.isclass(value):
                names = [each for each in vars(value) if each == "__init__" or each[0] != "_"]
                found = {f"{name}.{each}": getattr(value, each) for each in names}
            for path, function in found.items():
                if callable(function) and _takes_bytes(function):
                    yield f"{info.name.removeprefix('wire.')}.{path}"


def _takes_bytes(function: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a value, or written in C
        return False
    words = ("bytes", "sse.Event", "Exchange")
    return any(word in str(each.annotation) for each in parameters for word in words)


def _measure(read: Callable[[bytes], object], body: bytes, times: int = 1) -> float:
    """Return the seconds of the processor that the best of some readings takes."""
    best_s = inf
    with without_collector():
        for _ in range(times):
            start = thread_time()
            read(body)
            best_s = min(best_s, thread_time() - start)
    return best_s


def test_each_reader_is_among_these():
    assert set(list_readers()) == READERS.keys() | WITHIN_OTHERS


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_time_is_in_proportion_to_any_body(name):
    size = min(max(LEAST_BYTES, REPETITIONS * len(BODIES[name][1])), MOST_BYTES)
    small, large = make_body(name, size // SHARE), make_body(name, size)
    slow = {}
    for reader, read in READERS.items():
        took_s = _measure(read, large)
        if took_s < NOTICED_S or took_s < MOST_GROWTH * _measure(read, small):
            continue
        # A processor that is shared may have taken its part: the best counts.
        took_s, before_s = _measure(read, large, 5), _measure(read, small, 5)
        if took_s > NOTICED_S and took_s > MOST_GROWTH * before_s:
            slow[reader] = before_s, took_s
    assert not slow


# In a process of its own, for the most that a process has held is never less later. It is not read by
# `getrusage`, which counts what the process that began it held.
_IN_A_PROCESS = """
import re, resource, sys
from pathlib import Path
from tests.wire.test_hostile_bodies import MOST_CPU_S, MOST_PER_BYTE, PROCESS_BYTES, READERS, make_body
resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
for name, reader, size in zip(sys.argv[1::3], sys.argv[2::3], map(int, sys.argv[3::3])):
    READERS[reader](make_body(name, size))
    peak_kb = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
    assert peak_kb * 1024 < PROCESS_BYTES + MOST_PER_BYTE * size, f"{name}: {peak_kb} KB"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc; run it on Linux")
@pytest.mark.slow
def test_the_largest_bodies_take_bounded_memory():
    # The smallest first, since it is the most that a process has held. A hundred thousand comments take a
    # twentieth of a second.
    cases = [
        ("comments", "sse.parse_events", LARGEST // 16),
        ("small blocks", "request.Request.parse", LARGEST),
        ("quotes", "request_strings.Position.walk", LARGEST),
        ("unlike keys", "repeated_requests.RepeatedRequests.read", LARGEST),
        ("one text", "threads.join_thread", LARGEST),
        ("content in content", "request_places.place_request", LARGEST),
    ]
    words = [str(word) for case in cases for word in case]
    command = [sys.executable, "-c", _IN_A_PROCESS, *words]
    ended = subprocess.run(  # noqa: S603 - ours
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
