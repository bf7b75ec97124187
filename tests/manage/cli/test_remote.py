"""Commands on a remote service, and their errors for all that it may answer, or not."""

import json
import socket
import ssl
import threading
from typing import Any

import pytest
import trustme
from click.testing import CliRunner

from manage.api.endpoint_operations import create_endpoint
from manage.cli.main import cli
from manage.cli.remote import KeyAuth, RemoteBackend
from metering import token_counts
from runtime.errors import (
    ConflictError,
    ControlError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    SlugTakenError,
)
from tests.upstream import CLOSE, PATIENCE_S, Script, Upstream, answer, head, refusing_address

KEY = f"sk_{'k' * 43}"
EMPTY: dict[str, Any] = {"items": [], "nextCursor": None, "hasMore": False}
AN_ENDPOINT: dict[str, Any] = {
    "id": "1",
    "name": "One",
    "slug": "one",
    "url": "http://h/proxy/one",
    "created_at": "2026-01-01T00:00:00Z",
    "streaming": None,
    "metadata_only": False,
    "upstream": None,
    "upstream_url": None,
}

TOTALS: dict[str, Any] = {
    "calls": 3,
    "errors": 0,
    "cost_cents": 400,
    "unpriced": 0,
    "rejected": None,
    **dict.fromkeys(token_counts.NAMES, 7),
}


@pytest.fixture
def service():
    with Upstream() as service:
        service.otherwise = answer(200, json.dumps(EMPTY).encode())
        yield service
    assert service.faults == []


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("TAXIMETER_API_KEY", KEY)


def run(*arguments):
    return CliRunner().invoke(cli, arguments)


def problem(code, message, **more):
    return json.dumps({"error": {"code": code, "message": message, **more}}).encode()


def test_the_key_goes_into_the_header_and_nowhere_else(service):
    result = run("endpoints", "list", "--base-url", service.url)
    assert result.exit_code == 0, result.output
    (request,) = service.requests
    assert request.header("authorization") == f"Bearer {KEY}"
    assert request.target == "/api/proxy-endpoints?limit=100"
    assert request.head.count(KEY.encode()) == 1
    assert KEY not in result.output


def test_no_http_proxy_is_asked_for_what_is_on_this_machine(service, monkeypatch):
    with refusing_address() as nowhere:
        monkeypatch.setenv("HTTP_PROXY", nowhere)
        monkeypatch.setenv("http_proxy", nowhere)
        assert run("keys", "list", "--base-url", service.url).exit_code == 0


def test_pages_are_followed_to_the_end(service):
    first, second = ({**AN_ENDPOINT, "id": id_} for id_ in ("a", "b"))
    for item, cursor in ((first, "one"), (second, None)):
        document = {"items": [item], "nextCursor": cursor, "hasMore": cursor is not None}
        service.enqueue(answer(200, json.dumps(document).encode()))
    listed = json.loads(run("endpoints", "list", "--json", "--base-url", service.url).stdout)
    assert listed == {"items": [first, second], "nextCursor": None, "hasMore": False}
    assert service.requests[1].target == "/api/proxy-endpoints?cursor=one&limit=100"


def test_what_a_newer_service_adds_is_left_out(service):
    item = {**AN_ENDPOINT, "added": 1}
    service.otherwise = answer(200, json.dumps(EMPTY | {"items": [item], "more": 2}).encode())
    listed = json.loads(run("endpoints", "list", "--json", "--base-url", service.url).stdout)
    assert listed == EMPTY | {"items": [AN_ENDPOINT]}


def test_an_erasure_is_ordered_and_waited_for(service, monkeypatch):
    monkeypatch.setattr("manage.cli.retention_commands.POLL_S", 0.0)
    ordered = {"id": "e", "entries": 12, "set_aside": 0, "erased_at": None, "ended_at": None}
    erased = ordered | {"erased_at": "2026-01-01T00:00:00.000Z"}
    for document in (ordered, ordered, erased):
        service.enqueue(answer(202, json.dumps(document).encode()))
    arguments = ("--client", "cli", "--from", "2026-01-01", "--yes", "--base-url", service.url)
    result = run("erase", *arguments)
    assert result.stdout == (
        "Erased 12 calls. Calls that were in flight are erased when they have been recorded.\n"
    )
    fields = {"client": "cli", "from": "2026-01-01T00:00:00.000Z"}
    asked = [(r.method, r.target, json.loads(r.body or b"null")) for r in service.requests]
    assert asked == [
        ("POST", "/api/erasures", fields),
        ("GET", "/api/erasures/e", None),
        ("GET", "/api/erasures/e", None),
    ]


def test_a_rule_is_read_changed_and_put_back(service):
    state = {"text_days": 30, "entry_days": 90, "max_bytes": None}
    service.otherwise = answer(200, json.dumps(state).encode())
    result = run("retention", "set", "--call-days", "off", "--base-url", service.url)
    assert result.exit_code == 0, result.output
    sent = [(r.method, r.target, json.loads(r.body or b"null")) for r in service.requests]
    assert sent[1] == ("PUT", "/api/retention", state | {"entry_days": None})


def test_pages_without_an_end_are_refused(service):
    service.otherwise = answer(200, b'{"items": [], "nextCursor": "again", "hasMore": true}')
    result = run("keys", "list", "--base-url", service.url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "without an end" in result.stderr


def test_what_is_asked_is_what_the_api_takes(service):
    service.otherwise = answer(200, b"{}")
    arguments = ("--slug", "s", "--streaming", "live", "--metadata-only")
    run("endpoints", "create", "N", *arguments, "--base-url", service.url)
    run("endpoints", "create", "N", "--base-url", service.url)
    run("endpoints", "update", "a/b?", "--streaming", "service", "--base-url", service.url)
    run("endpoints", "delete", "a b", "--base-url", service.url)
    run("keys", "create", "N", "--base-url", service.url)
    run("keys", "delete", "i", "--base-url", service.url)
    asked = [(r.method, r.target, json.loads(r.body or b"null")) for r in service.requests]
    assert asked == [
        (
            "POST",
            "/api/proxy-endpoints",
            {"name": "N", "slug": "s", "streaming": "live", "metadata_only": True},
        ),
        ("POST", "/api/proxy-endpoints", {"name": "N"}),
        ("PATCH", "/api/proxy-endpoints/a%2Fb%3F", {"streaming": None}),
        ("DELETE", "/api/proxy-endpoints/a%20b", None),
        ("POST", "/api/api-keys", {"name": "N"}),
        ("DELETE", "/api/api-keys/i", None),
    ]
    assert run("endpoints", "delete", "..", "--base-url", service.url).exit_code == 1
    assert len(service.requests) == 6


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (answer(401, problem("unauthorized", "No.")), "does not accept the key"),
        (answer(403, problem("forbidden", "Only its owner may.")), "Only its owner may."),
        (answer(404, problem("not_found", "There is none.")), "There is none."),
        (answer(409, problem("slug_taken", "The slug is taken.")), "The slug is taken."),
        (answer(400, problem("invalid_input", "Say\r\n\x1b[2Jwhat.")), "Say???[2Jwhat."),
        (answer(429, problem("rate_limited", "Slow."), [("retry-after", "7")]), "again in 7 s"),
        (answer(429, problem("rate_limited", "Slow.")), "again later"),
        (answer(503, problem("unavailable", "Busy.")), "failed with 503: Busy."),
        (
            answer(502, b"<html>", [("content-type", "text/html")]),
            "not Taximeter's API (status 502",
        ),
        (answer(200, b"<html>"), "not Taximeter's API"),
        (answer(200, b"[]"), "not Taximeter's API"),
        (answer(200, b"{}"), "not Taximeter's API"),
        (answer(200, b'{"items": [1]}'), "not Taximeter's API"),
        (answer(301, b"", [("location", "https://elsewhere")]), "redirects to https://elsewhere"),
        (Script((CLOSE,)), "closed the connection"),
        (Script((head(200, [("content-length", "9")]) + b"{", CLOSE)), "closed the connection"),
    ],
)
def test_whatever_is_answered_is_one_line_on_standard_error(service, script, message):
    service.otherwise = script
    result = run("endpoints", "list", "--json", "--base-url", service.url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert KEY not in result.stderr


def test_totals_of_a_remote_service_are_grouped_as_local_ones(service):
    sums = TOTALS
    names = dict.fromkeys(("day", "model", "proxy_endpoint_id", "slug"))
    group = sums | names | {"client": "claude-cli", "value_cents": 100, "spend_cents": 300}
    document = {"by": "client", "from": None, "to": None, "totals": sums, "groups": [group]}
    service.otherwise = answer(200, json.dumps(document).encode())
    result = run("usage", "--by", "client", "--base-url", service.url)
    assert service.requests[0].target == "/api/usage?by=client"
    lines = [line.split() for line in result.stdout.splitlines()]
    assert (lines[0][0], lines[0][-3:]) == ("CLIENT", ["OF", "WHICH", "VALUE"])
    assert lines[1][:2] == ["claude-cli", "3"]
    assert "$1.00" in lines[1]


def test_a_remote_service_is_searched_as_a_local_one(service):
    hit = {"id": 7, "entry_id": "e", "created_at": "2026-01-02T03:04:05.678Z", "slug": "team"}
    hit |= {"model": None, "session_id": "s", "session_title": "Find it", "role": "tool_result"}
    hit |= {"snippet": "a wombat\nfound", "other_calls": 1000, "other_calls_capped": True}
    service.otherwise = answer(200, json.dumps({"items": [hit], "hasMore": True}).encode())
    result = run("search", "a", "wombat", "-n", "1", "--base-url", service.url)
    assert service.requests[0].target == "/api/search?q=a+wombat&limit=1"
    assert result.stdout.splitlines() == [
        "call 7  2026-01-02 03:04:05  tool result  team  Find it, also in more than 1,000 later",
        "  a wombat found",
        f"  {service.url}/calls/7",
        "There may be more; -n shows up to 100.",
    ]


def test_a_search_that_was_cut_is_not_said_to_have_found_nothing(service):
    service.otherwise = answer(200, json.dumps({"items": [], "hasMore": True}).encode())
    said = run("search", "a", "--base-url", service.url).stdout
    assert said == "Nothing was found in the time of a search: use fewer or rarer words.\n"


HOSTILE = {"id": "\x00", "slug": "\x1b[2J", "name": "\n", "url": "\r", "created_at": "\x07"}


def test_a_hostile_service_cannot_steer_the_terminal(service):
    item = AN_ENDPOINT | HOSTILE
    service.otherwise = answer(200, json.dumps(EMPTY | {"items": [item]}).encode())
    result = run("endpoints", "list", "--base-url", service.url)
    assert result.exit_code == 0, result.output
    assert all(line.isprintable() for line in result.stdout.splitlines())
    assert len(result.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    "wrong", [{"id": 1}, {"url": ["\n"]}, {"streaming": "\x1b[2J"}, {"metadata_only": "\x1b[2J"}]
)
def test_an_item_of_another_shape_is_named_and_not_shown(service, wrong):
    item = AN_ENDPOINT | wrong
    service.otherwise = answer(200, json.dumps(EMPTY | {"items": [item]}).encode())
    result = run("endpoints", "list", "--json", "--base-url", service.url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"is not Taximeter's API (items.0.{next(iter(wrong))}: " in result.stderr
    assert result.stderr.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, "invalid_input", InvalidInputError),
        (403, "forbidden", ForbiddenError),
        (404, "not_found", NotFoundError),
        (409, "conflict", ConflictError),
        (409, "slug_taken", SlugTakenError),
    ],
)
def test_a_refusal_is_the_error_that_it_is_on_this_machine(service, status, code, error):
    service.otherwise = answer(status, problem(code, "Not so.", field="slug"))
    with (
        RemoteBackend(service.url, KeyAuth(KEY), print) as backend,
        pytest.raises(ControlError) as caught,
    ):
        backend.call(create_endpoint, name="N")
    assert type(caught.value) is error
    assert (str(caught.value), caught.value.field) == ("Not so.", "slug")


def test_what_does_not_fit_the_request_is_not_sent(service):
    with (
        RemoteBackend(service.url, KeyAuth(KEY), print) as backend,
        pytest.raises(InvalidInputError) as caught,
    ):
        backend.call(create_endpoint, name="N", colour="blue")
    assert (str(caught.value), caught.value.field) == ("there is no such field", "colour")
    assert service.requests == []


def test_an_address_where_nobody_answers():
    with refusing_address() as url:
        result = run("usage", "--base-url", url)
    assert result.exit_code == 1
    assert f"{url} cannot be reached" in result.stderr


def test_a_certificate_that_is_not_trusted(monkeypatch, tmp_path):
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    with Upstream(tls=tls) as secured:
        secured.otherwise = answer(200, json.dumps(EMPTY).encode())
        result = run("keys", "list", "--base-url", secured.url)
        assert result.exit_code == 1
        assert "SSL_CERT_FILE" in result.stderr
        assert secured.requests == []
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert run("keys", "list", "--base-url", secured.url).exit_code == 0


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificate_authorities_that_cannot_be_read_are_named(monkeypatch, tmp_path, content):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    result = run("keys", "list", "--base-url", "https://taximeter.example")
    assert result.exit_code == 1
    assert f"{path}: certificate authorities cannot be read" in result.stderr
    assert "check SSL_CERT_FILE" in result.stderr


def test_tls_where_there_is_none():
    def serve(listener):
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)  # all of it: what is left unread makes the end a reset
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        thread = threading.Thread(target=serve, args=[listener])
        thread.start()
        port = listener.getsockname()[1]
        result = run("keys", "list", "--base-url", f"https://127.0.0.1:{port}")
        thread.join(PATIENCE_S)
    assert result.exit_code == 1
    assert "failed the TLS handshake" in result.stderr


@pytest.mark.parametrize(
    "key", [None, "", " ", "sk-ant-api03-secret", "sk_short", "sk_\n" + "k" * 42]
)
def test_without_a_usable_key_nothing_is_asked_and_nothing_quoted(service, monkeypatch, key):
    monkeypatch.delenv("TAXIMETER_API_KEY")
    if key is not None:
        monkeypatch.setenv("TAXIMETER_API_KEY", key)
    result = run("endpoints", "list", "--base-url", service.url)
    assert result.exit_code == 2
    assert "TAXIMETER_API_KEY" in result.stderr
    assert not key or not key.strip() or key not in result.stderr
    assert service.requests == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("keys", "list", "--base-url", "http://h", "--data-dir", "d"), "--data-dir"),
        (("keys", "list", "--base-url", "http://h", "--user", "a@b"), "--user"),
        (("keys", "list", "--base-url", "http://h/path"), "no path"),
        (("keys", "list", "--base-url", "h"), "http://"),
        (("keys", "list", "--api-key", KEY), "No such option"),
        (("users", "list", "--base-url", "http://h"), "No such option"),
        (("tail", "--base-url", "http://h"), "No such option"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_environment_may_name_the_service(service, monkeypatch, data_dir):
    monkeypatch.setenv("TAXIMETER_BASE_URL", service.url)
    assert run("keys", "list").exit_code == 0
    assert len(service.requests) == 1
    assert run("keys", "list", "--data-dir", str(data_dir)).exit_code == 0
    monkeypatch.setenv("TAXIMETER_DATA_DIR", str(data_dir))
    monkeypatch.delenv("TAXIMETER_API_KEY")
    assert run("keys", "list").exit_code == 0
    assert len(service.requests) == 1


def test_a_key_that_would_travel_in_the_open_is_warned_of(monkeypatch):
    monkeypatch.setattr("manage.cli.remote.TIMEOUT_S", 0.1)
    result = run("keys", "list", "--base-url", "http://nowhere.invalid")
    assert "without https" in result.stderr


def test_a_mistyped_endpoint_of_a_remote_service_is_named_with_what_was_meant(service):
    service.enqueue(answer(404, problem("not_found", "There is no such proxy endpoint.")))
    service.enqueue(answer(200, json.dumps(EMPTY | {"items": [AN_ENDPOINT]}).encode()))
    usage: dict[str, Any] = {
        "by": "endpoint",
        "from": None,
        "to": None,
        "totals": TOTALS,
        "groups": [],
    }
    service.enqueue(answer(200, json.dumps(usage).encode()))
    result = run("endpoints", "delete", "on", "--base-url", service.url)
    assert result.exit_code == 1
    assert "there is no proxy endpoint 'on' (did you mean 'one'?)" in result.stderr


def test_an_export_of_a_remote_service_has_its_pages_one_after_the_other(service):
    columns = {"organization_id": "text", "id": "integer", "model": "text"}
    pages = [
        {
            "columns": columns,
            "items": [{"organization_id": "o", "id": number, "model": "m"}],
            "nextCursor": cursor,
            "hasMore": cursor is not None,
        }
        for number, cursor in ((1, "next"), (1, "next"), (2, None))
    ]
    endpoints = [AN_ENDPOINT | {"slug": slug} for slug in ("a", "b")]
    for page in (EMPTY | {"items": endpoints}, *pages):
        service.enqueue(answer(200, json.dumps(page).encode()))
    result = run(
        "export", "--format", "csv", "--slug", "a", "--slug", "b", "--base-url", service.url
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == ["organization_id,id,model", "o,1,m", "o,2,m"]
    assert [each.target for each in service.requests] == [
        "/api/proxy-endpoints?limit=100",
        "/api/calls?slugs=a%2Cb&bodies=no&limit=1",
        "/api/calls?slugs=a%2Cb&bodies=no&limit=1000",
        "/api/calls?slugs=a%2Cb&bodies=no&cursor=next&limit=1000",
    ]
