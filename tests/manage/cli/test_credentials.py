import json

from click.testing import CliRunner

from manage.cli.main import cli
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
