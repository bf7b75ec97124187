"""The contract with the functions that have a shorter way.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st
from mitmproxy import connection, options
from mitmproxy.addons import proxyserver
from mitmproxy.http import Headers, Message
from mitmproxy.net.http import http1, url, validate
from mitmproxy.proxy import context
from mitmproxy.proxy.layers import http as http_layers
from mitmproxy.test import taddons, tflow, tutils

from addon import mitmproxy_patches, mitmproxy_shortcuts
from addon.core import header_shortcuts, shortcuts

NAMES = st.sampled_from([b"Host", b"host", b"HOST", b"X-A", b"x-a", b"x-b", b"\xff", b"a\nb", b""])
FIELDS = st.lists(st.tuples(NAMES, st.binary(max_size=3)), max_size=8)


def count_lowered_names():
    """Return how many names are made lower case one by one when a message is looked into five times."""
    lowered = []

    class Name(bytes):
        def lower(self):
            lowered.append(self)
            return super().lower()

    headers = Headers()
    headers.fields = ((Name(b"Host"), b"a"), (Name(b"Accept"), b"b"))
    assert [headers.get("accept") for _ in range(5)] == ["b"] * 5
    return len(lowered)


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
    assert count_lowered_names() == 10


@pytest.mark.usefixtures("unpatched")
def test_names_are_made_lower_once_for_each_message():
    mitmproxy_patches.take_shortcuts()
    assert count_lowered_names() == 2


@given(FIELDS, FIELDS)
def test_headers_are_found_as_before(fields, changed):
    original = mitmproxy_shortcuts.SHORTCUTS[0].original
    get_all = header_shortcuts.index_headers(original, None)
    headers = Headers(fields)
    for headers.fields in (tuple(fields), tuple(changed)):
        for name in ("host", "HOST", b"Host", "x-A", "absent", b"\xff", "\udcff", "a", ""):
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


class RaisingHeaders(Headers):
    """Headers that count how often one was looked for that is not there."""

    raised = 0

    def __getitem__(self, name):
        try:
            return super().__getitem__(name)
        except KeyError:
            RaisingHeaders.raised += 1
            raise


def look_for_absent():
    RaisingHeaders.raised = 0
    headers = RaisingHeaders([(b"host", b"a")])
    assert headers.get("accept") is None
    assert headers.get(b"accept", "b") == "b"
    assert "accept" not in headers
    return RaisingHeaders.raised


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_raises_for_each_header_that_is_not_there():
    assert look_for_absent() == 3


@pytest.mark.usefixtures("unpatched")
def test_a_header_that_is_not_there_is_told_without_an_exception():
    mitmproxy_patches.take_shortcuts()
    assert look_for_absent() == 0


@pytest.mark.usefixtures("unpatched")
@given(FIELDS)
def test_headers_are_made_and_looked_up_as_before(fields):
    def look_up():
        headers = Headers([list(field) for field in fields])  # type: ignore[misc]
        names = ("host", b"HOST", "x-A", "absent", b"\xff", "\udcff")
        found = [(headers.get(name), headers.get(name, "other"), name in headers) for name in names]
        return headers.fields, found

    before = look_up()
    mitmproxy_patches.take_shortcuts()
    assert look_up() == before
    for patch in mitmproxy_shortcuts.SHORTCUTS:
        setattr(patch.owner, patch.name, patch.original)


def count_updates(monkeypatch):
    added = []
    monkeypatch.setattr(Headers, "update", lambda _self, more: added.append(more), raising=False)
    Headers([(b"host", b"a")])
    return len(added)


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_adds_no_headers_to_those_it_is_given(monkeypatch):
    assert count_updates(monkeypatch) == 1


@pytest.mark.usefixtures("unpatched")
def test_headers_are_made_in_one_pass_and_still_of_bytes_alone(monkeypatch):
    mitmproxy_patches.take_shortcuts()
    assert Headers([(b"x-a", b"1")], host="a", content_type="b").fields == (
        (b"x-a", b"1"), (b"host", b"a"), (b"content-type", b"b"),
    )  # fmt: skip
    with pytest.raises(TypeError):
        Headers([("host", b"a")])  # type: ignore[list-item]
    assert count_updates(monkeypatch) == 0


def count_parsed_hosts(monkeypatch):
    parsed: list[str] = []

    def is_valid(host):
        parsed.append(host)
        return True

    with monkeypatch.context() as patched:
        patched.setattr(url, "is_valid_host", is_valid)
        for _ in range(3):
            assert url.parse_authority("a.example:8080", check=True) == ("a.example", 8080)
    return len(parsed)


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_parses_each_authority(monkeypatch):
    assert count_parsed_hosts(monkeypatch) == 3


@pytest.mark.usefixtures("unpatched")
def test_an_authority_is_parsed_once(monkeypatch):
    mitmproxy_patches.take_shortcuts()
    assert count_parsed_hosts(monkeypatch) == 1
    for authority in ("a:b", "a b", "x" * 300):
        for _ in range(2):
            with pytest.raises(ValueError, match=r"^$"):
                url.parse_authority(authority, check=True)
            assert url.parse_authority(authority, check=False) == (authority, None)


class CountingHeaders(Headers):
    """Headers that count how often one was looked up."""

    look_ups = 0

    def get(self, name, default=None):
        CountingHeaders.look_ups += 1
        return super().get(name, default)


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
        each.original for each in mitmproxy_shortcuts.SHORTCUTS if "body_size" in each.name
    }
    shorter = header_shortcuts.remember_body_size(original, None)
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


def count_checked_names(monkeypatch):
    """Return how many names of a message are checked by themselves."""
    checked = []

    class Pattern:
        def match(self, name):
            checked.append(name)
            return True

    with monkeypatch.context() as patched:
        patched.setattr(validate, "_valid_header_name", Pattern())
        request = tutils.treq(headers=Headers([(b"x-a", b"1"), (b"x-b", b"1")]))
        http_layers.validate_headers(request)  # type: ignore[attr-defined]
    return len(checked)


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_checks_each_name_by_itself(monkeypatch):
    assert count_checked_names(monkeypatch) == 2


@pytest.mark.usefixtures("unpatched")
def test_names_are_checked_all_at_once(monkeypatch):
    mitmproxy_patches.take_shortcuts()
    assert count_checked_names(monkeypatch) == 0


ODD_NAMES = st.sampled_from(
    [b"x-a", b"X-A", b"a b", b"", b"a:", b"\xff", b"a\n", b"a\x00", b"\xc3\x84"]
)
ODD = st.lists(st.tuples(ODD_NAMES, st.just(b"1")), max_size=2)


@given(FRAMING, ODD, STATUSES, st.sampled_from([b"HTTP/1.1", b"HTTP/1.0"]))
def test_headers_are_checked_as_before(framing, others, status, version):
    (original,) = {
        each.original for each in mitmproxy_shortcuts.SHORTCUTS if each.name == "validate_headers"
    }
    fields = Headers([*framing, *others])
    message: Message = tutils.treq(headers=fields, http_version=version)
    if status is not None:
        message = tutils.tresp(headers=fields, http_version=version, status_code=status)

    def judge(function):
        try:
            return function(message)
        except ValueError as error:
            return str(error)

    assert judge(header_shortcuts.validate_by_index(original, None)) == judge(original)


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_hashes_connections_by_their_ids():
    client = tflow.tclient_conn()
    assert hash(client) == hash(client.id)


@pytest.mark.usefixtures("unpatched")
def test_connections_are_keys_by_what_they_are():
    mitmproxy_patches.take_shortcuts()
    client, server = tflow.tclient_conn(), tflow.tserver_conn()
    assert {client: 1, server: 2}[server] == 2
    assert hash(client) == object.__hash__(client)


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
