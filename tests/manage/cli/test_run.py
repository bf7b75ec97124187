"""The parts of ``taximeter run`` that need no client and no service."""

import socket

import click
import pytest

from manage.api.run_operations import Run
from manage.api.usage_operations import UsageGroup, UsageTotals
from manage.cli.console import explained
from manage.cli.run_commands import _find_folder, choose_slug, describe_run
from manage.supervision.run_lock import RunLock, watch
from manage.supervision.run_service import ANY_PORT, choose_listen
from runtime.settings import Settings
from tests.upstream import kept_port, wait_until

SUMS = {
    "calls": 3,
    "errors": 1,
    "input_tokens": 1000,
    "output_tokens": 50,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 500,
    "cost_cents": 12.345,
    "unpriced": 0,
    "rejected": None,
}


def model(name="claude-x", **changes):
    return UsageGroup(model=name, day=None, proxy_endpoint_id=None, slug=None, **(SUMS | changes))


def run_of(*, pending=0, models=None, **changes):
    totals = UsageTotals(**(SUMS | changes))
    return Run(
        run_id="r1", pending=pending, totals=totals, models=[model()] if models is None else models
    )


def test_the_summary_has_the_cost_the_models_and_where_to_look():
    assert describe_run(run_of(), "http://meter", is_running=True) == [
        "",
        "taximeter: 3 calls, $0.1235",
        "MODEL     CALLS  ERRORS  INPUT  CACHED  OUTPUT     COST",
        "claude-x      3       1  1,500     500      50  $0.1235",
        "Each call: http://meter/traces/usage?run_id=r1",
    ]


def test_the_estimated_part_of_the_cost_is_said():
    part = {"estimated_cents": 2.5}
    other = model("claude-y", **part)
    lines = describe_run(run_of(models=[model(), other], **part), "http://meter", is_running=True)
    assert lines[1] == "taximeter: 3 calls, $0.1235, of which $0.0250 estimated"
    assert lines[2].endswith("COST  OF WHICH ESTIMATED")
    assert lines[3].endswith("50  $0.1235")
    assert lines[4].endswith("$0.1235             $0.0250")


def test_calls_that_may_have_been_billed_are_said():
    lines = describe_run(run_of(maybe_billed=2), "http://meter", is_running=True)
    assert "2 calls without usage that upstream may have billed, not in the cost." in lines


def test_what_is_not_in_the_cost_is_said():
    unknown = model("\x1b[2Jx", cost_cents=0, unpriced=1)
    lines = describe_run(
        run_of(pending=2, models=[unknown], unpriced=1), "http://meter", is_running=False
    )
    assert lines[3].startswith("?[2Jx")
    assert lines[3].endswith(" -")
    assert lines[4:] == [
        "1 call without a known price, not in the cost.",
        "2 calls not recorded yet, not in the totals.",
        "Each call: `taximeter up`, then http://meter/traces/usage?run_id=r1",
    ]


def test_a_run_without_calls_is_pointed_out():
    (_, line) = describe_run(run_of(calls=0, models=[]), "http://meter", is_running=True)
    assert "ANTHROPIC_BASE_URL" in line


@pytest.mark.parametrize(
    ("slugs", "wanted", "chosen"),
    [(["a", "default"], None, "default"), (["a"], None, "a"), (["a", "b"], "b", "b")],
)
def test_the_endpoint_is_the_one_wanted_or_the_obvious_one(slugs, wanted, chosen):
    assert choose_slug(slugs, wanted) == chosen


@pytest.mark.parametrize(
    ("slugs", "wanted", "message"),
    [
        (["a"], "b", "no proxy endpoint 'b'; `taximeter endpoints list` shows them"),
        (["team-blue", "x"], "team-bleu", r"\(did you mean 'team-blue'\?\)"),
        ([], None, "endpoints create"),
        (["a", "b"], None, "--endpoint: a, b"),
    ],
)
def test_an_endpoint_that_cannot_be_chosen_is_a_sentence(slugs, wanted, message):
    with pytest.raises(click.ClickException, match=message), explained():
        choose_slug(slugs, wanted)


def test_a_default_port_that_is_taken_is_replaced_and_one_that_was_chosen_is_not():
    with kept_port() as port:  # nobody else takes it in between
        address = f"127.0.0.1:{port}"
        settings = Settings.from_env({"TAXIMETER_LISTEN": address})
        with socket.create_server(("127.0.0.1", port)):
            assert choose_listen(settings, {}) == ANY_PORT
            assert choose_listen(settings, {"TAXIMETER_LISTEN": address}) == address
        assert choose_listen(settings, {}) == address


def test_a_service_is_unused_once_the_last_run_has_ended(tmp_path):
    ended = []
    first, second = RunLock(tmp_path), RunLock(tmp_path)
    watch(tmp_path, lambda: ended.append(True))
    assert not first.is_last()
    first.release()
    first.release()
    assert not ended
    assert second.is_last()
    second.release()
    wait_until(lambda: ended, "the service to be told")


def test_a_folder_that_has_been_removed_has_its_former_name(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    assert _find_folder() == folder
    folder.rmdir()
    assert _find_folder() == folder


def test_the_summary_says_for_whom_the_calls_are_recorded():
    run = run_of().model_copy(update={"project": "acme/shop", "tags": ("a", "b")})
    lines = describe_run(run, "http://meter", is_running=True)
    assert (
        lines[2]
        == "Recorded for project acme/shop, tagged a, b, but where the client named others."
    )
