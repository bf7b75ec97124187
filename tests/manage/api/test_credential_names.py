FINGERPRINT = "7d1c09aa54ef8b021f2e3d4c5b6a7988"
PATH = f"/credential-names/{FINGERPRINT}"


def test_owners_name_credentials_by_their_fingerprints(ann, ask):
    named = ann("PUT", PATH, json={"name": "ci key"})
    assert named.status_code == 200
    assert named.json() | {"created_at": ""} == {
        "fingerprint": FINGERPRINT,
        "name": "ci key",
        "created_at": "",
    }
    assert ask("bob", "GET", "/credential-names").json() == {"items": [named.json()]}
    assert ask("cid", "GET", "/credential-names").json() == {"items": []}
    assert ask("bob", "PUT", PATH, json={"name": "mine"}).status_code == 403
    assert ask("cid", "DELETE", PATH).status_code == 404
    assert ann("DELETE", PATH).json() == {"ok": True}
    assert ann("GET", "/credential-names").json() == {"items": []}


def test_what_is_no_name_is_refused(ann):
    response = ann("PUT", PATH, json={"name": "a\nb"})
    assert (response.status_code, response.json()["error"]["field"]) == (400, "name")
    response = ann("PUT", "/credential-names/a%20b", json={"name": "ci key"})
    assert (response.status_code, response.json()["error"]["field"]) == (400, "fingerprint")
