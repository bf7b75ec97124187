import json

from click.testing import CliRunner

from manage.cli.main import cli
from metering.rate_limits import RateLimits
from tests.store.traffic import make_entry
from tests.upstream import Upstream, answer

FINGERPRINT = "7d1c09aa54ef8b021f2e3d4c5b6a7988"


def test_credentials_are_named_listed_and_unnamed(run):
    assert run("credentials", "list").stdout.startswith("No credential has a name. ")
    named = run("credentials", "name", FINGERPRINT, "ci key")
    assert named.stdout == f"{FINGERPRINT} is now ci key.\n"
    assert run("credentials", "list").stdout.splitlines()[1].split()[:3] == [
        FINGERPRINT,
        "ci",
        "key",
    ]
    (item,) = json.loads(run("credentials", "list", "--json").stdout)["items"]
    assert (item["fingerprint"], item["name"]) == (FINGERPRINT, "ci key")
    assert run("credentials", "unname", FINGERPRINT).exit_code == 0
    assert run("credentials", "unname", FINGERPRINT).exit_code == 1
    assert run("credentials", "name", "no fingerprint", "x").exit_code == 1


def test_a_credential_is_named_elsewhere(monkeypatch):
    monkeypatch.setenv("TAXIMETER_API_KEY", "sk_" + "k" * 43)
    named = {
        "fingerprint": FINGERPRINT,
        "name": "ci key",
        "created_at": "2026-01-01T00:00:00.000Z",
    }
    with Upstream() as service:
        service.otherwise = answer(200, json.dumps(named).encode())
        result = CliRunner().invoke(
            cli, ["credentials", "name", FINGERPRINT, "ci key", "--base-url", service.url]
        )
        assert result.exit_code == 0, result.output
        (request,) = service.requests
    assert (request.method, request.target) == ("PUT", f"/api/credential-names/{FINGERPRINT}")
    assert json.loads(request.body) == {"name": "ci key"}


def test_the_tokens_of_a_subscription_are_one_person(run, traces):
    for day, credential in ((1, "old-token"), (2, "new-token")):
        limits = RateLimits(unified_status="allowed", account="account-of-ana")
        at = f"2026-01-0{day}T08:00:00.000Z"
        traces.insert([make_entry(created_at=at, credential_hmac=credential, rate_limits=limits)])
    run("credentials", "name", "old-token", "laptop of Ana")
    line = run("credentials", "list").stdout.splitlines()[1]
    assert line.split()[:4] == ["old-token", "laptop", "of", "Ana"]
    assert line.rstrip().endswith("new-toke")
    usage = run("usage", "--by", "credential").stdout
    assert usage.splitlines()[1].split()[:4] == ["laptop", "of", "Ana", "2"]
    counted = run("erase", "--credential", "new-token", "--dry-run").stdout
    assert counted == (
        "2 calls would be erased. They are of one account, by the fingerprints old-token, new-token.\n"
    )


def test_agents_are_named_listed_and_unnamed(run, traces):
    traces.insert(
        [make_entry(created_at="2026-01-02T08:00:00.000Z", session_id="s", agent_id="a0f3")]
    )
    assert run("agents", "list").stdout.startswith("No agent has a name. ")
    assert run("agents", "name", "a0f3", "reviewer").stdout == "a0f3 is now reviewer.\n"
    assert run("agents", "list").stdout.splitlines()[1].split()[:2] == ["a0f3", "reviewer"]
    assert run("credentials", "list").stdout.startswith("No credential has a name. ")
    assert run("usage", "--by", "agent").stdout.splitlines()[1].startswith("reviewer")
    (group,) = json.loads(run("usage", "--by", "agent", "--json").stdout)["groups"]
    assert (group["agent"], group["name"]) == ("a0f3", "reviewer")
    assert run("credentials", "unname", "a0f3").exit_code == 1
    assert run("agents", "unname", "a0f3").exit_code == 0
    assert run("agents", "unname", "a0f3").exit_code == 1
    assert run("agents", "name", "no agent", "x").exit_code == 1
