from metering.rate_limits import RateLimits
from store.traces.database import TraceDatabase
from tests.store.traffic import make_entry

FINGERPRINT = "7d1c09aa54ef8b021f2e3d4c5b6a7988"
PATH = f"/credential-names/{FINGERPRINT}"


def test_owners_name_credentials_by_their_fingerprints(ann, ask):
    named = ann("PUT", PATH, json={"name": "ci key"})
    assert named.status_code == 200
    assert named.json() | {"created_at": ""} == {
        "fingerprint": FINGERPRINT,
        "name": "ci key",
        "created_at": "",
        "account": None,
        "fingerprints": [],
    }
    assert ask("bob", "GET", "/credential-names").json() == {"items": [named.json()]}
    assert ann("DELETE", PATH).json() == {"ok": True}
    assert ann("GET", "/credential-names").json() == {"items": []}


def test_what_is_no_name_is_refused(ann):
    response = ann("PUT", PATH, json={"name": "a\nb"})
    assert (response.status_code, response.json()["error"]["field"]) == (400, "name")
    response = ann("PUT", "/credential-names/a%20b", json={"name": "ci key"})
    assert (response.status_code, response.json()["error"]["field"]) == (400, "fingerprint")


def test_all_tokens_of_an_account_have_its_name_and_are_listed_beside_it(ann, traces_path):
    with TraceDatabase(traces_path) as traces:
        for day, credential in ((1, "old"), (2, "new")):
            limits = RateLimits(unified_status="allowed", account="ana")
            at = f"2026-01-0{day}T08:00:00.000Z"
            traces.insert(
                [make_entry(created_at=at, credential_hmac=credential, rate_limits=limits)]
            )
    named = ann("PUT", "/credential-names/old", json={"name": "laptop of Ana"}).json()
    assert (named["account"], named["fingerprints"]) == ("ana", ["old", "new"])
    (group,) = ann("GET", "/usage?by=credential").json()["groups"]
    assert (group["credential_hmac"], group["name"], group["calls"]) == ("ana", "laptop of Ana", 2)
    assert group["fingerprints"] == ["old", "new"]
    counted = ann("POST", "/erasures", json={"credential": "new", "dry_run": True}).json()
    assert (counted["entries"], counted["fingerprints"]) == (2, ["old", "new"])


def test_owners_name_agents_by_their_ids(ann, ask):
    named = ann("PUT", "/agent-names/a0f3", json={"name": "reviewer"})
    assert named.json() | {"created_at": ""} == {
        "agent": "a0f3",
        "name": "reviewer",
        "created_at": "",
    }
    assert ask("bob", "GET", "/agent-names").json() == {"items": [named.json()]}
    assert ask("bob", "GET", "/credential-names").json() == {"items": []}
    assert ann("DELETE", "/agent-names/a0f3").json() == {"ok": True}
