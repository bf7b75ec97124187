"""The contract with the functions that have a shorter way.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st
from mitmproxy import connection, options
from mitmproxy.http import Headers
from mitmproxy.net.http import http1
from mitmproxy.proxy import context
from mitmproxy.test import tflow, tutils

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
