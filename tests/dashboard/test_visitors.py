"""Keys that are not good, at the addresses of the trace browser."""

import pytest
from starlette.testclient import TestClient

from manage.server import make_app
from runtime.attempts import BAD_KEYS_PER_MINUTE
from runtime.settings import CLIENT_MARK_VARIABLE
from tests.dashboard.people import BASE_URL


@pytest.fixture
def ask(settings, control, monkeypatch):
    monkeypatch.setenv(CLIENT_MARK_VARIABLE, "mark")
    with TestClient(make_app(settings), base_url=BASE_URL) as client:

        def ask(key, address):
            headers = {"authorization": f"Bearer {key}", "x-taximeter-client": f"mark {address}"}
            return client.get("/traces/usage.json", headers=headers)

        yield ask


def test_too_many_bad_keys_of_one_address_are_told_to_wait(ask, ann):
    for _ in range(BAD_KEYS_PER_MINUTE):
        assert ask("sk_no", "10.0.0.7").status_code == 401
    refused = ask("sk_no", "10.0.0.7")
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limited"
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert ask("sk_no", "10.0.0.8").status_code == 401
    good_key = ann.bearer["authorization"].removeprefix("Bearer ")
    assert ask(good_key, "10.0.0.7").status_code == 404, "a good key passes; nothing is recorded"
