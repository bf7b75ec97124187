import re
import unicodedata
from dataclasses import replace
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, strategies as st

from addon.destination import Destination
from addon.errors import Refusal
from addon.upstream_paths import KNOWN, UpstreamCall, judge

FREE = UpstreamCall(Destination.OTHER)
BILLED = UpstreamCall(Destination.OTHER, is_billed=True)
MESSAGES = UpstreamCall(Destination.MESSAGES, is_billed=True, record="messages")
CHAT = UpstreamCall(Destination.OTHER, is_billed=True, record="chat_completions")
SESSION_EVENTS = UpstreamCall(Destination.OTHER, record="session_events")
RESULTS = UpstreamCall(Destination.OTHER, record="batch_results")


@pytest.mark.parametrize(
    ("method", "path", "call"),
    [
        ("POST", "/v1/messages", MESSAGES),
        ("GET", "/v1/messages", FREE),
        ("POST", "/v1/messages/count_tokens", UpstreamCall(Destination.COUNT_TOKENS)),
        ("POST", "/v1/messages/batches", BILLED),
        ("GET", "/v1/messages/batches", FREE),
        ("POST", "/v1/messages/batches/msgbatch_01HkcT/cancel", FREE),
        ("GET", "/v1/messages/batches/msgbatch_01HkcT/results", RESULTS),
        ("HEAD", "/v1/messages/batches/msgbatch_01HkcT/results", FREE),
        ("POST", "/v1/complete", BILLED),
        ("POST", "/v1/chat/completions", CHAT),
        ("POST", "/v1/sessions", replace(BILLED, record="session")),
        ("GET", "/v1/sessions", replace(FREE, record="session")),
        ("POST", "/v1/sessions/sesn_01Ab", replace(BILLED, record="session")),
        ("GET", "/v1/sessions/sesn_01Ab", replace(FREE, record="session")),
        ("DELETE", "/v1/sessions/sesn_01Ab", FREE),
        ("POST", "/v1/sessions/sesn_01Ab/events", BILLED),
        ("GET", "/v1/sessions/sesn_01Ab/events", SESSION_EVENTS),
        ("GET", "/v1/sessions/sesn_01Ab/events/stream", SESSION_EVENTS),
        ("GET", "/v1/sessions/sesn_01Ab/threads/sthr_1/stream", FREE),
        ("POST", "/v1/sessions/sesn_01Ab/archive", FREE),
        ("POST", "/v1/deployments/depl_1", BILLED),
        ("POST", "/v1/deployments/depl_1/run", BILLED),
        ("POST", "/v1/deployments/depl_1/pause", FREE),
        ("POST", "/v1/dreams", replace(BILLED, record="dream")),
        ("GET", "/v1/dreams/drm_1", replace(FREE, record="dream")),
        ("POST", "/v1/dreams/drm_1/cancel", FREE),
        ("POST", "/v1/files", FREE),
        ("GET", "/v1/models/claude-3.5-x:0@2", FREE),
        ("GET", "/v1/models/claude%20x%3A0", FREE),
        ("GET", "/v1/models/mod%C3%A8le", FREE),
        ("POST", "/v1/what_comes_next", FREE),
        ("POST", "/v1/WhatComes/Next;a=b/x.y", FREE),
        ("POST", "/v1/messages_2", FREE),
        ("POST", "/v1/messages:verb", FREE),
    ],
)
def test_what_a_call_is_follows_from_method_and_path(method, path, call):
    assert judge(method, path) == call


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/%6dessages", "write /v1/messages"),
        ("/v1/%6Dessages", "write /v1/messages"),
        ("/v1/Messages", "write /v1/messages"),
        ("/v1/MESSAGES", "write /v1/messages"),
        ("/v1/messages;a=b", "write /v1/messages"),
        ("/v1/messages;", "write /v1/messages"),
        ("/v1/messages%3Ba=b", "write /v1/messages"),
        ("/v1/messages%20", "write /v1/messages"),
        ("/v1/%20messages", "write /v1/messages"),
        ("/v1/messages+", "write /v1/messages"),
        ("/v1/messages%2B", "write /v1/messages"),
        ("/v1/messages%C2%A0", "write /v1/messages"),
        ("/v1/messages%E3%80%80", "write /v1/messages"),
        ("/v1/messages%E2%80%8B", "write /v1/messages"),
        ("/v1/messages%E4%B8%AD", "write /v1/messages"),
        ("/v1/%EE%80%80messages", "write /v1/messages"),
        ("/v1/messages%E2%83%9D", "write /v1/messages"),
        ("/v1/messages%EF%BB%BF", "write /v1/messages"),
        ("/v1/messages.", "write /v1/messages"),
        ("/v1/messages.json", "write /v1/messages"),
        ("/v1/me%C5%BFsages", "write /v1/messages"),
        ("/v1/messag%C3%A9s", "write /v1/messages"),
        ("/v1/%EF%BD%8Dessages", "write /v1/messages"),
        ("/v1/%E2%93%9Cessages", "write /v1/messages"),
        ("/v1/messages/Batches", "write /v1/messages/batches"),
        ("/v1/messages/b%61tches", "write /v1/messages/batches"),
        ("/v1/Messages/batches/b_1/results", "write /v1/messages"),
        ("/v1/messages/count_Tokens", "write /v1/messages/count_tokens"),
        ("/v1/sess%C4%B1ons/s_1/events", "write /v1/sessions/<id>/events"),
        ("/v1/sess%C4%B0ons/s_1/events", "write /v1/sessions/<id>/events"),
        ("/v1/sessions/s_1/events;x", "write /v1/sessions/<id>/events"),
        ("/v1/Files/f_1", "write /v1/files"),
        ("/v1/x/%6dessages", "write m for %6d"),
        ("/v1/models/a%2Eb", "write . for %2E"),
        ("/v1/models/a%7E", "write ~ for %7E"),
        ("/v1/%C1%ADessages", "not UTF-8"),
        ("/v1/messages%FF", "not UTF-8"),
        ("/v1/%256dessages", "an encoded slash, %"),
        ("/v1/%EF%BC%856dessages", "an encoded slash, %"),
        ("/v1/messages%3Fbeta", "an encoded slash, %"),
        ("/v1/messages%23", "an encoded slash, %"),
        ("/v1/messages%C2%85", "an encoded slash, %"),
        ("/v1/models%EF%BC%8Fx", "an encoded slash, %"),
        ("/v1/x/..;/messages", "dot segments"),
        ("/v1/x/..;a=b/messages", "dot segments"),
        ("/v1/x/%2e%2e%20/messages", "dot segments"),
        ("/v1/x/%E2%80%A5/messages", "dot segments"),
        ("/v1/.../messages", "dot segments"),
        ("/v1/;x/messages", "dot segments"),
        ("/v1/%20/messages", "dot segments"),
        ("/v1/messages/;x/batches", "dot segments"),
        ("/v1//messages", "doubled slash"),
    ],
)
def test_another_spelling_is_refused_whatever_the_method(path, said):
    for method in ("POST", "GET"):
        refusal = judge(method, path)
        assert isinstance(refusal, Refusal)
        assert (refusal.status, refusal.code) == (400, "bad_path")
        assert said in refusal.message


@pytest.mark.parametrize(
    "path", ["/v1/messages/", "/V1/messages", "/v1", "/v1/", "/v1;x/messages", ""]
)
def test_what_is_below_no_version_is_unknown(path):
    refusal = judge("POST", path)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "unknown_path"


# -- no server can read a path that is forwarded as another call --------------------------------------


def _resolve(path):
    found: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            del found[-1:]
        elif segment != ".":
            found.append(segment)
    return "/" + "/".join(found)


def _each_segment(change):
    return lambda path: "/".join(map(change, path.split("/")))


READINGS = {
    "decode": lambda path: unquote(path, errors="replace"),
    "decode to Latin-1": lambda path: unquote(path, encoding="latin-1"),
    "plus is a blank": lambda path: path.replace("+", " "),
    "lower": str.lower,
    "upper, then lower": lambda path: path.upper().lower(),
    "casefold": str.casefold,
    "NFC": lambda path: unicodedata.normalize("NFC", path),
    "NFKC": lambda path: unicodedata.normalize("NFKC", path),
    "ASCII only": lambda path: (
        unicodedata.normalize("NFKD", path).encode("ascii", "ignore").decode()
    ),
    "parameters": _each_segment(lambda segment: segment.partition(";")[0]),
    "blanks": _each_segment(str.strip),
    "dots at the end": _each_segment(lambda segment: segment.rstrip(".") or segment),
    "file type": _each_segment(lambda segment: segment.partition(".")[0] or segment),
    "dot segments": _resolve,
    "doubled slashes": lambda path: re.sub("/+", "/", path),
    "backslashes": lambda path: path.replace("\\", "/"),
    "slash at the end": lambda path: path.rstrip("/"),
    "query": lambda path: path.partition("?")[0],
    "fragment": lambda path: path.partition("#")[0],
    "C strings": lambda path: path.partition("\0")[0],
}
DISGUISES = [
    "%20", "+", "%09", ";", ";a=b", "%3B", ".", ".json", "..;/", "../", "./", "/", "//", "%2f", "%252f", "%5c",
    "%25", "%2e", "%2E%2E", "%00", "%3f", "?", "#", "%23", "%c2%a0", "%e2%80%8b", "%cc%81", "%ef%bc%8f",
    "%ef%bc%8e", "%ef%bc%9b", "%e4%b8%ad", "/%ee%80%80/", "%e2%80%a5", "%c5%bf", "%ff", "%c1%ad", "x", "*", "~", "v1/messages", "files/",
]  # fmt: skip
LETTERS = {"s": "ſ", "i": "ıİ", "k": "\u212a", "e": "éⓔ", "m": "ｍℳ", "o": "ºö", "a": "ªà"}  # noqa: RUF001


@st.composite
def paths(draw):
    """A path that is known, with some of it written otherwise and some things put in."""
    known = str(draw(st.sampled_from(KNOWN))).replace("<id>", "id_1")
    written = []
    for letter in known[len("/v1/") :]:
        ways = [letter] * 60 + [letter.upper(), f"%{ord(letter):02x}", f"%25{ord(letter):02x}"]
        ways += [quote(each) for each in LETTERS.get(letter, "")]
        written.append(draw(st.sampled_from(ways)))
    for _ in range(draw(st.integers(0, 2))):
        written.insert(draw(st.integers(0, len(written))), draw(st.sampled_from(DISGUISES)))
    return "/v1/" + "".join(written)


def _find_exactly(path):
    """Return what posting to a path is for a server that compares paths by their letters."""
    segments = path.split("/")[1:]
    for known in KNOWN:
        if len(known.segments) == len(segments) and all(
            each in ("*", segment) for each, segment in zip(known.segments, segments, strict=True)
        ):
            return known.posted
    return FREE


@given(paths(), st.lists(st.sampled_from(sorted(READINGS)), max_size=5))
def test_no_server_reads_what_is_forwarded_as_another_call(path, readings):
    call = judge("POST", path)
    if isinstance(call, Refusal):  # as most are
        return
    read = path
    for each in readings:
        read = READINGS[each](read)
    assert _find_exactly(read) == call
