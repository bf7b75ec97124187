"""Importing the results of message batches, from a file and from the upstream."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from manage.cli import import_batch_commands, importing
from manage.http_client import KEY_VARIABLE, TOKEN_VARIABLE
from metering.budget_periods import Span
from store.control.database import ControlDatabase
from store.traces.sums.spend import Spend, read_spends_of
from tests.manage.cli.test_import import Place, handing_over
from tests.store.traffic import make_entry
from tests.upstream import (
    CLOSE,
    Script,
    Upstream,
    answer,
    chunked,
    error_json,
    head,
    refusing_address,
)

BATCH = "msgbatch_01abc"
KEY = "sk-ant-api03-made-up-for-tests"
CREATED = datetime(2026, 11, 2, 10, 30, tzinfo=UTC)
USAGE = {
    "input_tokens": 1_000,
    "output_tokens": 100,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
}
# Half of 1,000 x 5 and 100 x 25 USD per million.
CENTS = 0.375


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    return Place(tmp_path / "here")


@pytest.fixture
def upstream(monkeypatch):
    with Upstream() as upstream:
        monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", upstream.url)
        monkeypatch.setenv(KEY_VARIABLE, KEY)
        yield upstream
    assert upstream.faults == []


@pytest.fixture
def write(tmp_path):
    def write(*lines, name=f"{BATCH}_results.jsonl"):
        path = tmp_path / name
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        os.utime(path, (CREATED.timestamp(), CREATED.timestamp()))
        return str(path)

    return write


def succeeded(custom_id, message_id=None, **changes):
    message = {
        "type": "message",
        "id": message_id or f"msg_{custom_id}",
        "model": "claude-opus-5",
        "content": [{"type": "text", "text": f"Said to {custom_id}"}],
        "stop_reason": "end_turn",
        "usage": USAGE,
    }
    return make_line(custom_id, type="succeeded", message=message | changes)


def make_line(custom_id, **result):
    return json.dumps({"custom_id": custom_id, "result": result}).encode()


ERRORED = make_line(
    "bad", type="errored", error=json.loads(error_json("invalid_request_error", "no"))
)
ALL = (
    succeeded("one"),
    ERRORED,
    make_line("stopped", type="canceled"),
    make_line("late", type="expired"),
    succeeded("two", service_tier="standard"),
)


def read_document(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def describe(upstream, **changes):
    document = {
        "type": "message_batch",
        "id": BATCH,
        "processing_status": "ended",
        "created_at": "2026-11-02T10:30:00.123456Z",
        "results_url": f"{upstream.url}/v1/messages/batches/{BATCH}/results",
    }
    return answer(200, json.dumps(document | changes).encode())


# -- from a file ----------------------------------------------------------------------------------


def test_results_become_calls_at_half_price(place, write):
    result = place.run("import", "batch", write(*ALL))
    assert result.stdout == (
        "Imported 3 calls; 1 was left out (canceled); 1 was left out (expired).\n"
    ), result.output
    assert place.read(
        "select entry_id, created_at, slug, proxy_endpoint_id, product, outcome, usage_source,"
        " message_id, cost_cents from usage_log order by entry_id"
    ) == [
        (f"{BATCH}:bad", "2026-11-02T10:30:00.000Z", "default", place.endpoint_id, "batch",
         "upstream_error", "none", None, 0.0),
        (f"{BATCH}:one", "2026-11-02T10:30:00.000Z", "default", place.endpoint_id, "batch",
         "complete", "final", "msg_one", CENTS),
        (f"{BATCH}:two", "2026-11-02T10:30:00.000Z", "default", place.endpoint_id, "batch",
         "complete", "final", "msg_two", CENTS),
    ]  # fmt: skip
    assert place.read("select sum(entries), sum(cost_cents) from usage_hourly") == [(3, 2 * CENTS)]
    ((body,),) = place.read("select response_body from usage_log where message_id = 'msg_one'")
    assert json.loads(body)["content"][0]["text"] == "Said to one"
    assert place.run("verify").exit_code == 0


def test_a_result_is_a_call_once(place, write, monkeypatch):
    monkeypatch.setattr(importing, "GROUP_CALLS", 2)
    left_out = {"canceled": 1, "expired": 1}
    path = write(*ALL, succeeded("one"))
    expected = {"new": 3, "already_there": 1, "left_out": left_out}
    assert read_document(place.run("import", "batch", path, "--json")) == expected
    expected = {"new": 0, "already_there": 4, "left_out": left_out}
    assert read_document(place.run("import", "batch", path, "--json")) == expected


def test_a_message_of_upstream_counts_once_whatever_its_entry_is_called(place, write):
    place.insert(make_entry(message_id="msg_one"))
    path = write(succeeded("one"), succeeded("two"), name="results.jsonl")
    done = read_document(place.run("import", "batch", path, "--batch-id", "mine", "--json"))
    assert done == {"new": 1, "already_there": 1, "left_out": {}}
    again = read_document(place.run("import", "batch", path, "--batch-id", "other", "--json"))
    assert again == {"new": 0, "already_there": 2, "left_out": {}}


def test_results_of_one_batch_are_told_apart_by_their_custom_ids_alone(place, write, monkeypatch):
    monkeypatch.setattr(importing, "GROUP_CALLS", 1)
    path = write(*(succeeded(name, "msg_same") for name in "abc"))
    assert read_document(place.run("import", "batch", path, "--json"))["new"] == 3


def test_the_id_of_the_batch_is_in_the_name_or_named(place, write):
    path = write(succeeded("one"), name="results.jsonl")
    result = place.run("import", "batch", path)
    assert (result.exit_code, "name it with --batch-id" in result.stderr) == (2, True)
    assert place.run("import", "batch", path, "--batch-id", "a b").exit_code == 2
    assert place.run("import", "batch", path, "--batch-id", "msgbatch_9").exit_code == 0
    arguments = ("-", "--batch-id", "msgbatch_9", "--json")
    piped = place.run("import", "batch", *arguments, input=Path(path).read_bytes())
    assert read_document(piped)["already_there"] == 1
    assert place.read("select entry_id from usage") == [("msgbatch_9:one",)]


def test_calls_are_of_the_endpoint_and_the_day_that_are_named(place, write):
    with ControlDatabase(place.data_dir / "control.db") as control:
        control.set_up()
    assert place.run("endpoints", "create", "Nightly").exit_code == 0
    path = write(succeeded("one"))
    result = place.run("import", "batch", path, "--endpoint", "nightli")
    assert (result.exit_code, "nightly" in result.stderr) == (1, True)
    arguments = ("--endpoint", "nightly", "--day", "2026-10-31")
    assert place.run("import", "batch", path, *arguments).exit_code == 0
    assert place.read("select slug, created_at from usage") == [
        ("nightly", "2026-10-31T00:00:00.000Z")
    ]


def test_what_a_customer_pays_is_no_spend(place, write):
    arguments = ("import", "batch", write(*ALL), "--customer")
    assert place.run(*arguments, "no profile").exit_code == 2
    assert place.run(*arguments, "uprof_1").exit_code == 0
    assert place.read("select outcome, billing, user_profile_id from usage order by entry_id") == [
        ("upstream_error", None, "uprof_1"),  # refused: nobody pays
        ("complete", "customer", "uprof_1"),
        ("complete", "customer", "uprof_1"),
    ]
    day = Span(CREATED - timedelta(days=1), CREATED + timedelta(days=1))
    assert read_spends_of(place.path, [(day, None, None)]) == [Spend(0.0, 0)]
    assert place.run("import", "batch", write(succeeded("three"))).exit_code == 0
    assert read_spends_of(place.path, [(day, None, None)]) == [Spend(CENTS, 0)]


def test_an_endpoint_without_texts_keeps_none(place, write):
    assert place.run("endpoints", "update", "default", "--metadata-only").exit_code == 0
    path = write(succeeded("one", model="some text, no name"), succeeded("two"))
    assert place.run("import", "batch", path).exit_code == 0
    assert place.read(
        "select model, response_body, body_notes from usage_log order by entry_id"
    ) == [
        (None, None, "response not kept: metadata only"),
        ("claude-opus-5", None, "response not kept: metadata only"),
    ]


def test_lines_that_are_no_results_are_left_out(place, write, monkeypatch):
    monkeypatch.setattr(import_batch_commands, "MAX_LINE_BYTES", 1_000)
    long = succeeded("long", content=[{"type": "text", "text": "x" * 1_000}])
    path = write(b"{", succeeded("one"), b"", long, make_line("new", type="of_the_future"))
    done = read_document(place.run("import", "batch", path, "--json"))
    assert done == {"new": 1, "already_there": 0, "left_out": {"unreadable": 2, "too_long": 1}}


def test_a_file_of_something_else_is_an_error(place, write):
    result = place.run("import", "batch", write(b"one", b"two"))
    assert result.exit_code == 1
    assert "none of these lines is the result of a batch" in result.stderr
    assert (
        "No such file" in place.run("import", "batch", "./nothing.jsonl", "--batch-id", "b").stderr
    )


def test_a_running_recorder_stores_what_is_handed_over(place, write):
    with handing_over(place) as stored:
        result = place.run("import", "batch", write(*ALL))
    assert result.stdout.startswith("Imported 3 calls; "), result.output
    assert stored == [place.organization_id]
    assert place.read("select count(*) from usage") == [(3,)]


# -- from the upstream ----------------------------------------------------------------------------


def test_results_are_fetched_with_the_key_of_the_environment(place, upstream):
    body = b"\n".join(ALL)
    upstream.enqueue(describe(upstream), chunked(200, [body[:700], body[700:]]))
    done = read_document(place.run("import", "batch", BATCH, "--json"))
    assert done == {"new": 3, "already_there": 0, "left_out": {"canceled": 1, "expired": 1}}
    first, second = upstream.requests
    assert (first.target, second.target) == (
        f"/v1/messages/batches/{BATCH}",
        f"/v1/messages/batches/{BATCH}/results",
    )
    for each in (first, second):
        assert (each.method, each.header("x-api-key")) == ("GET", KEY)
        assert each.header("anthropic-version") == "2023-06-01"
    assert place.read("select distinct created_at from usage") == [("2026-11-02T10:30:00.123Z",)]
    files = [path for path in place.data_dir.rglob("*") if path.is_file()]
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_results_come_from_the_upstream_of_the_endpoint(place, upstream, monkeypatch):
    monkeypatch.setenv("TAXIMETER_UPSTREAMS", f"eu={upstream.url}/eu")
    monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", "http://127.0.0.1:1")
    assert place.run("endpoints", "update", "default", "--upstream", "eu").exit_code == 0
    upstream.enqueue(describe(upstream), answer(200, b"\n".join(ALL)))
    done = read_document(place.run("import", "batch", BATCH, "--json"))
    assert done["new"] == 3
    assert upstream.requests[0].target == f"/eu/v1/messages/batches/{BATCH}"
    # Nobody has said what that upstream charges.
    assert place.read(
        "select distinct upstream, cost_cents from usage where status_code = 200"
    ) == [("eu", None)]
    monkeypatch.setenv("TAXIMETER_UPSTREAMS", "")
    refused = place.run("import", "batch", BATCH)
    assert refused.exit_code == 1
    assert "which TAXIMETER_UPSTREAMS does not name" in refused.stderr
    assert len(upstream.requests) == 2


def test_a_token_is_sent_as_one_and_a_relative_address_is_upstreams(place, upstream, monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE)
    monkeypatch.setenv(TOKEN_VARIABLE, "token")
    upstream.enqueue(describe(upstream, results_url="/v1/there"), answer(200, succeeded("one")))
    assert place.run("import", "batch", BATCH).exit_code == 0
    assert upstream.requests[1].target == "/v1/there"
    assert upstream.requests[1].header("authorization") == "Bearer token"


@pytest.mark.parametrize(
    "address",
    [
        "https://elsewhere.example/results",
        "//elsewhere.example/results",
        "http://127.0.0.1:1/results",
        "http://user@HOST/results",
        "https://HOST/results",
        "http://HOST.elsewhere.example/results",
        "results",
        "http://[",
        "",
    ],
)
def test_the_key_is_sent_to_the_upstream_alone(place, upstream, address):
    upstream.enqueue(describe(upstream, results_url=address.replace("HOST", upstream.host)))
    result = place.run("import", "batch", BATCH)
    assert result.exit_code == 1
    assert len(upstream.requests) == 1
    assert KEY not in result.output


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ({"processing_status": "in_progress"}, f"{BATCH} has not ended yet"),
        ({"processing_status": "canceling"}, "has not ended yet"),
        ({"results_url": None}, f"no results of {BATCH} any more; they stay for 29 days"),
        ({"type": "message"}, "does not respond with a message batch"),
        ({"created_at": "soon"}, "does not say when the batch was created"),
        ({"note": "x" * (1 << 20)}, "does not respond with a message batch"),
    ],
)
def test_a_batch_without_results_says_why(place, upstream, response, words):
    upstream.enqueue(describe(upstream, **response))
    result = place.run("import", "batch", BATCH)
    assert (result.exit_code, words in result.stderr) == (1, True), result.output
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, f"does not accept the key in {KEY_VARIABLE}"),
        (403, "does not accept the key"),
        (404, "has no such batch, or not for this key"),
        (302, "redirects elsewhere, where the key is not sent"),
        (529, "responds with status 529"),
    ],
)
def test_a_refusal_says_what_to_do_and_does_not_quote_the_key(place, upstream, status, words):
    body = error_json("e", f"no: {KEY}\x1b[2J")
    upstream.enqueue(answer(status, body, [("location", "https://elsewhere.example/")]))
    result = place.run("import", "batch", BATCH)
    assert (result.exit_code, words in result.stderr) == (1, True), result.output
    assert KEY not in result.output
    assert "\x1b" not in result.output


def test_a_download_that_breaks_off_is_finished_by_the_next(place, upstream):
    body = b"\n".join(ALL)
    cut = head(200, [("content-length", str(len(body)))]) + body[:-200]
    upstream.enqueue(describe(upstream), Script((cut, CLOSE)))
    result = place.run("import", "batch", BATCH)
    assert (result.exit_code, "closed the connection" in result.stderr) == (1, True)
    upstream.enqueue(describe(upstream), answer(200, body))
    done = read_document(place.run("import", "batch", BATCH, "--json"))
    assert (done["new"], done["already_there"]) == (1, 2)


def test_without_a_key_or_without_tls_nothing_is_sent(place, upstream, monkeypatch):
    monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", "http://gateway.example.org")
    assert "has no TLS" in place.run("import", "batch", BATCH).stderr
    monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", upstream.url)
    monkeypatch.setenv(KEY_VARIABLE, "schlüssel")
    assert "has no key" in place.run("import", "batch", BATCH).stderr
    monkeypatch.delenv(KEY_VARIABLE)
    assert f"set {KEY_VARIABLE} or {TOKEN_VARIABLE}" in place.run("import", "batch", BATCH).stderr
    result = place.run("import", "batch", BATCH, "--batch-id", "x")
    assert (result.exit_code, "--batch-id is for files" in result.stderr) == (2, True)
    assert upstream.requests == []


def test_an_upstream_that_is_not_there_is_named(place, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with refusing_address() as nowhere:
        monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", nowhere)
        result = place.run("import", "batch", BATCH)
    assert (result.exit_code, "127.0.0.1 cannot be reached" in result.stderr) == (1, True)
