import json
import re
import sqlite3
import time
from dataclasses import replace
from decimal import Decimal

import pytest
from click.testing import CliRunner

from manage.cli.main import cli
from metering.entry import CostItem, Outcome, UsageLogEntry
from metering.prices import BASE_VERSION, OWN_LABEL
from runtime import clock
from store.control.database import ControlDatabase
from store.traces.search.indexer import Indexer
from tests.manage.conftest import PRICES
from tests.store.traces.search.conversation import record, request, response, user
from tests.store.traffic import make_item

ENTRY = UsageLogEntry(
    entry_id="1",
    created_at="2026-06-01T10:11:12.131Z",
    proxy_endpoint_id="e",
    slug="default",
    outcome="complete",
    usage_source="final",
    streamed=True,
    model="claude-future-9",
    request_body=b'{"model":"claude-future-9"}',
    response_body=b"data: {}\n\n",
    cost_items=(
        CostItem(
            pass_index=0, model="claude-future-9", component="input",
            quantity=1_000_000, prompt_tokens=1_000_000,
        ),
    ),
)  # fmt: skip


def test_an_endpoint_can_be_created_listed_and_deleted(run):
    created = run("endpoints", "create", "Café #1", "--streaming", "buffered", "--json")
    assert created.exit_code == 0
    endpoint = json.loads(created.stdout)
    assert endpoint["slug"] == "cafe-1"
    assert endpoint["url"] == "http://127.0.0.1:8080/proxy/cafe-1"
    assert endpoint["created_at"].endswith("Z")
    assert len(endpoint["created_at"]) == 20
    listed = json.loads(run("endpoints", "list", "--json").stdout)
    assert [item["slug"] for item in listed["items"]] == ["cafe-1", "default"]
    assert listed["items"][0] == endpoint
    assert (listed["nextCursor"], listed["hasMore"]) == (None, False)
    assert json.loads(run("endpoints", "delete", "cafe-1", "--json").stdout) == {"ok": True}
    assert "cafe-1" not in run("endpoints", "list").stdout


def test_the_list_for_people_is_a_table(run):
    lines = run("endpoints", "list").stdout.splitlines()
    assert lines[0].split() == [
        "SLUG", "NAME", "STREAMING", "BODIES", "UPSTREAM", "CREATED", "(UTC)", "URL",
    ]  # fmt: skip
    assert lines[1].startswith("default")


def test_urls_are_those_of_the_service_that_last_ran_here(run, data_dir):
    (data_dir / "service.json").write_text('{"base_url": "http://127.0.0.1:9999"}')
    listed = json.loads(run("endpoints", "list", "--json").stdout)
    assert listed["items"][0]["url"] == "http://127.0.0.1:9999/proxy/default"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("endpoints", "create", "x", "--slug", "A b"), 1, "is not a valid slug"),
        (("endpoints", "create", "x", "--slug", "default"), 1, "taken"),
        (("endpoints", "create", " "), 1, "needs a name"),
        (("endpoints", "create"), 2, "NAME"),
        (("endpoints", "create", "x", "--streaming", "fast"), 2, "live"),
        (("endpoints", "delete", "nothing"), 1, "endpoints list"),
        (("verify",), 1, "nothing has been recorded"),
        (("reprice",), 1, "nothing has been recorded"),
        (("prune",), 2, "choose what to remove"),
        (("prune", "--older-than", "soon"), 2, "30d"),
        (("prune", "--older-than", "0d"), 2, "30d"),
        (("prune", "--larger-than", "big"), 2, "500MB"),
        (("users", "link", "nobody@example.org"), 1, "users list"),
        (("users", "create"), 2, "--email"),
        (("users", "create", "--email", "nobody"), 1, "nobody"),
        (("users", "create", "--email", "a@example.org", "--org", "Nowhere"), 1, "Nowhere"),
        (("users", "delete", "nobody@example.org"), 1, "users list"),
        (("keys", "create"), 2, "NAME"),
        (("keys", "create", "x", "--user", "nobody@example.org"), 1, "users list"),
        (("keys", "delete", "nothing"), 1, "keys list"),
        (("endpoints", "update", "default"), 2, "choose what to change"),
        (("endpoints", "update", "nothing", "--name", "x"), 1, "endpoints list"),
        (("endpoints", "delete", "\udcff"), 1, "UTF-8"),
        (("usage", "--by", "hour"), 2, "endpoint"),
        (("usage", "--from", "yesterday"), 2, "2026-01-31"),
        (("usage", "--from", "2026-01-02", "--to", "2026-01-01"), 1, "from"),
        (("export", "--since", "yesterday"), 2, "7d"),
        (("export", "--format", "csv", "--json"), 2, "exclude"),
        (("export", "-o", "/nowhere/at/all.csv"), 1, "/nowhere/at"),
        (("tail", "-n", "-1"), 2, "-1"),
    ],
)
def test_what_cannot_be_done_is_one_line_on_standard_error(run, arguments, status, message):
    result = run(*arguments)
    assert result.exit_code == status
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", ["verify", "reprice"])
def test_a_data_directory_that_is_missing_is_not_one_without_calls(command, tmp_path):
    missing = str(tmp_path / "missing")
    result = CliRunner().invoke(cli, [command, "--data-dir", missing])
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"there is no Taximeter data in {missing};" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("users", "delete", "\x1b[2J@example.org"),
        ("endpoints", "delete", "\x1b[2J"),
        ("users", "create", "--email", "a@example.org", "--org", "\x1b[2J"),
        ("endpoints", "create", "x", "--slug", "\x1b[2J"),
        ("export", "-o", "/nowhere/\x1b[2J.csv"),
    ],
)
def test_an_error_that_quotes_a_name_cannot_steer_the_terminal(run, arguments):
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.rstrip("\n").isprintable()


def test_a_mistyped_folder_is_not_made_into_an_empty_service(tmp_path):
    result = CliRunner().invoke(cli, ["endpoints", "list", "--data-dir", str(tmp_path / "nowhere")])
    assert result.exit_code == 1
    assert "taximeter up" in result.stderr
    assert not (tmp_path / "nowhere").exists()


def test_in_json_why_the_service_cannot_start_is_an_object_too(tmp_path):
    arguments = ["up", "--data-dir", str(tmp_path), "--log-format", "json", "--streaming", "fast"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 1
    line = json.loads(result.stderr)
    assert (line["process"], line["level"]) == ("up", "error")
    assert "TAXIMETER_STREAMING=fast" in line["message"]


def test_a_bad_setting_is_refused_before_anything_starts(tmp_path):
    result = CliRunner().invoke(
        cli, ["up", "--data-dir", str(tmp_path / "data"), "--streaming", "fast"]
    )
    assert result.exit_code == 1
    assert "TAXIMETER_STREAMING=fast" in result.stderr
    assert not (tmp_path / "data").exists()


def test_an_endpoint_can_be_changed(run):
    changed = run("endpoints", "update", "default", "--streaming", "buffered", "--metadata-only")
    assert changed.stdout == "Changed default.\n"
    (item,) = json.loads(run("endpoints", "list", "--json").stdout)["items"]
    assert (item["streaming"], item["metadata_only"]) == ("buffered", True)
    item = json.loads(
        run("endpoints", "update", "default", "--streaming", "service", "--json").stdout
    )
    assert (item["streaming"], item["metadata_only"]) == (None, True)


def test_an_endpoint_gets_an_upstream_that_is_named(run, monkeypatch):
    refused = run("endpoints", "create", "Europe", "--upstream", "eu")
    assert refused.exit_code == 1
    assert "the operator names them in TAXIMETER_UPSTREAMS (none)" in refused.stderr
    monkeypatch.setenv("TAXIMETER_UPSTREAMS", "eu=https://eu.example.org")
    assert run("endpoints", "create", "Europe", "--upstream", "eu").exit_code == 0
    listed = run("endpoints", "list").stdout
    assert re.search(r"europe +Europe +as the service +kept +eu ", listed), listed
    assert re.search(r"default +default +as the service +kept +the service's ", listed)
    changed = run("endpoints", "update", "europe", "--upstream", "service", "--json")
    assert json.loads(changed.stdout)["upstream"] is None
    assert run("endpoints", "update", "europe").exit_code == 2


def test_a_key_is_printed_once_alone_on_standard_output(run):
    created = run("keys", "create", "laptop")
    assert re.fullmatch(r"sk_[\w-]{43}\n", created.stdout)
    assert "not shown again" in created.stderr
    key = created.stdout.strip()
    listed = run("keys", "list")
    assert key not in listed.stdout
    assert f"{key[:8]}..." in listed.stdout
    document = json.loads(run("keys", "list", "--json").stdout)
    (item,) = document["items"]
    assert set(item) == {"id", "name", "key_prefix", "last_used_at", "created_at"}
    assert run("keys", "delete", item["id"]).exit_code == 0
    assert json.loads(run("keys", "list", "--json").stdout)["items"] == []
    assert run("keys", "list").stdout.startswith("There are no keys. ")
    as_json = json.loads(run("keys", "create", "again", "--json").stdout)
    assert as_json["key"].startswith(as_json["key_prefix"].rstrip("."))


@pytest.mark.slow
def test_a_list_longer_than_a_page_is_whole(run):
    for number in range(105):
        assert run("endpoints", "create", f"e{number}").exit_code == 0
    document = json.loads(run("endpoints", "list", "--json").stdout)
    assert len({item["id"] for item in document["items"]}) == 106
    assert (document["nextCursor"], document["hasMore"]) == (None, False)


def test_users_are_created_with_an_organisation_or_in_one(run):
    ada = json.loads(run("users", "create", "--email", "ada@example.org", "--json").stdout)
    assert (ada["email"], ada["role"]) == ("ada@example.org", "owner")
    bob = run("users", "create", "--email", "Bob@Example.org", "--org", "ada@example.org", "--json")
    bob = json.loads(bob.stdout)
    assert (bob["email"], bob["role"]) == ("bob@example.org", "member")
    assert bob["organization_id"] == ada["organization_id"]
    listed = json.loads(run("users", "list", "--json").stdout)
    assert [item["email"] for item in listed["items"]] == [
        "bob@example.org",
        "ada@example.org",
        None,
    ]
    assert "(local user)" in run("users", "list").stdout
    assert run("users", "create", "--email", "ada@example.org").exit_code == 1
    assert "/sign-in/link?token=" in run("users", "link", "ada@example.org").stdout
    link = json.loads(run("users", "link", "ada@example.org", "--json").stdout)
    assert "/sign-in/link?token=" in link["url"]
    assert run("users", "delete", "bob@example.org").stdout == "Deleted bob@example.org.\n"


def test_the_operator_makes_keys_for_a_user(run, data_dir):
    run("users", "create", "--email", "ada@example.org")
    assert run("keys", "create", "hers", "--user", "ada@example.org").exit_code == 0
    with ControlDatabase(data_dir / "control.db") as control, control.reading() as db:
        assert db.execute(
            "select user_id, details ->> 'for' from audit_log where action = 'key.create'"
        ).fetchall() == [(None, "ada@example.org")]
    (item,) = json.loads(run("keys", "list", "--user", "ada@example.org", "--json").stdout)["items"]
    assert item["name"] == "hers"
    assert json.loads(run("keys", "list", "--json").stdout)["items"] == []
    assert run("keys", "delete", item["id"], "--user", "ada@example.org").exit_code == 0


def test_verify_proves_that_bodies_are_exact(run, traces):
    traces.insert([ENTRY])
    assert run("verify").stdout == "All bodies of 1 call are intact, and costs and sums add up.\n"
    assert json.loads(run("verify", "--json").stdout) == {
        "ok": True,
        "entries": 1,
        "problems": [],
    }


def test_verify_names_what_is_damaged(run, traces):
    traces.insert([ENTRY])
    traces.connection.execute("update response_bodies set body = 'forged'")
    result = run("verify", "--json")
    assert result.exit_code == 1
    problems = json.loads(result.stdout)["problems"]
    assert {p["entry_id"] for p in problems} == {"1"}
    assert run("verify").exit_code == 1


def test_reprice_gives_a_cost_once_a_price_is_known(run, traces, tmp_path):
    traces.insert([ENTRY])
    assert "0 calls" in run("reprice").stdout
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    assert run("reprice", "--prices", str(prices)).stdout == "Changed the cost of 1 call.\n"
    (cost,) = traces.connection.execute("select cost_cents from usage_log").fetchone()
    assert cost == 200
    assert "0 calls" in run("reprice", "--prices", str(prices), "--all").stdout


def test_repricing_everything_gives_each_call_the_rate_of_its_day(run, traces):
    (item,) = ENTRY.cost_items
    read = item._replace(model="claude-sonnet-5-5", component="cache_read", cents=Decimal(77))
    stored = replace(ENTRY, model=read.model, cost_cents=read.cents, cost_items=(read,))
    days = ["2026-10-06T23:59:59.999Z", "2026-10-07T00:00:00.000Z"]
    traces.insert([replace(stored, entry_id=day, created_at=day) for day in days])
    assert run("reprice").stdout == "Changed the cost of 0 calls.\n"
    assert run("reprice", "--all").stdout == "Changed the cost of 2 calls.\n"
    items = traces.connection.execute(
        "select created_at, cost_cents, rate_usd, price_version"
        " from usage join usage_cost on usage_id = id order by id"
    )
    before, since = items.fetchall()
    assert before[:3] == (days[0], 20, 0.2)
    assert since[:3] == (days[1], 10, 0.1)
    assert before[3].startswith(OWN_LABEL)
    assert since[3] == BASE_VERSION


def test_a_bad_price_file_is_named(run, traces, tmp_path):
    traces.insert([ENTRY])
    prices = tmp_path / "prices.toml"
    prices.write_text("[[models]]\nmatch = 3")
    result = run("reprice", "--prices", str(prices))
    assert result.exit_code == 1
    assert "prices.toml: models[1]: match" in result.stderr


def test_prune_removes_what_is_old_and_keeps_the_sums(run, traces):
    new = replace(ENTRY, entry_id="2", created_at=clock.format_ms(clock.now()))
    items = (make_item(cents=Decimal(3)),)
    traces.insert([replace(ENTRY, cost_cents=Decimal(3), cost_items=items), new])
    result = json.loads(run("prune", "--older-than", "90d", "--json").stdout)
    assert result["entries"] == 1
    assert [r[0] for r in traces.connection.execute("select entry_id from usage_log")] == ["2"]
    (cost,) = traces.connection.execute("select sum(cost_cents) from usage_hourly").fetchone()
    assert cost == 3
    assert run("prune", "--older-than", "90d").stdout.startswith("Removed 0 calls; ")


def test_a_database_that_is_none_is_one_line_and_not_a_traceback(run, data_dir):
    (data_dir / "control.db").write_bytes(b"no database" * 100)
    for path in data_dir.glob("control.db-*"):
        path.unlink()
    result = run("endpoints", "list")
    assert result.exit_code == 1
    assert "database" in result.stderr
    assert not isinstance(result.exception, sqlite3.Error)


@pytest.fixture
def colours(monkeypatch):
    monkeypatch.setattr("manage.cli.terminal.has_colours", lambda: True)


def test_failed_calls_are_red(data_dir, traces, colours):
    outcomes: tuple[Outcome, ...] = ("complete", "client_disconnected", "upstream_error")
    traces.insert(
        [
            replace(ENTRY, entry_id=outcome, outcome=outcome, model="\x1b[32mx")
            for outcome in outcomes
        ]
    )
    arguments = ["tail", "--no-follow", "--data-dir", str(data_dir)]
    lines = CliRunner().invoke(cli, arguments, color=True).stdout.splitlines()
    assert [line.startswith("\x1b[31m") for line in lines] == [False, False, True]
    assert "\x1b[32m" not in "".join(lines)
    as_json = CliRunner().invoke(cli, [*arguments, "--json"], color=True).stdout
    assert "\x1b" not in as_json


def test_what_was_searched_for_has_a_colour(data_dir, traces, colours):
    record(traces, (request(user("a red\x1b[2J wombat and a wombat")), response("-")))
    Indexer(traces.connection, time.monotonic).run(60)
    arguments = ["search", "wombat", "--data-dir", str(data_dir)]
    line = CliRunner().invoke(cli, arguments, color=True).stdout.splitlines()[1]
    assert line == "  a red?[2J \x1b[1;33mwombat\x1b[0m and a \x1b[1;33mwombat\x1b[0m"


def test_what_was_said_is_found_with_its_call(run, traces):
    assert "Nothing that was said" in run("search", "wombat").stdout
    said = request(user("where is the wombat\x1b[2J")), response("in the numbat nest")
    record(traces, said, title_text="Find the wombat")
    Indexer(traces.connection, time.monotonic).run(60)
    lines = run("search", "numbat", "nest").stdout.splitlines()
    assert lines[0].startswith("call 1  2026-")
    assert lines[0].endswith("  assistant  default  Find the wombat")
    assert lines[1] == "  in the numbat nest"
    assert lines[2] == "  http://127.0.0.1:8080/calls/1"
    assert "\x1b" not in run("search", "wombat").stdout
    found = json.loads(run("search", '"the wombat"', "--role", "user", "--json").stdout)
    assert [(each["id"], each["marks"]) for each in found["items"]] == [(1, [[9, 19]])]
    run("endpoints", "create", "other")
    assert "Nothing" in run("search", "numbat", "--slug", "other").stdout
    assert run("search", "x" * 1001).exit_code == 1
