"""Attacks by a member on what an owner has decided, at the same time as the owner decides it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.users import Users
from tests.live.service import Endpoint, Service
from tests.upstream import PATIENCE_S

BUDGET = {"period": "day", "limit_usd": 1e-9, "action": "refuse"}
type Ask = Callable[..., httpx.Response]


@pytest.fixture
def ask_as_member(service: Service) -> Iterator[Ask]:
    """Ask the API with the key of somebody who joined the local organisation, and has left after the test."""
    with ControlDatabase(service.data_dir / "control.db") as control:
        management, users = Management(control, service.data_dir), Users(control)
        users.create("member@example.org", join=management.local_caller().organization_id)
        key = management.create_key(management.find_caller("member@example.org"), "x")[1]
        with open_client(service, key) as client:
            yield client.request
        users.delete("member@example.org")


def open_client(service: Service, key: str) -> httpx.Client:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.Client(
        base_url=f"http://{service.host}/api", headers=headers, timeout=PATIENCE_S, trust_env=False
    )


def test_no_race_drops_a_budget(endpoint: Endpoint, ask_as_member: Ask) -> None:
    service, path = endpoint.service, f"/proxy-endpoints/{endpoint.slug}"
    new = {"name": endpoint.slug, "slug": endpoint.slug}
    with open_client(service, service.create_key("owner")) as owner, ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            attacks = [
                pool.submit(ask_as_member, "DELETE", path),
                pool.submit(ask_as_member, "POST", "/proxy-endpoints", json=new),
                pool.submit(ask_as_member, "PATCH", path, json={"metadata_only": True}),
            ]
            decided = pool.submit(owner.put, f"{path}/budget", json=BUDGET).result()
            statuses = {attack.result().status_code for attack in attacks}
            assert statuses <= {200, 201, 403, 404, 409}
            if decided.status_code == 404:  # the member was first, and there was no budget yet
                ask_as_member("POST", "/proxy-endpoints", json=new)
                assert owner.put(f"{path}/budget", json=BUDGET).status_code == 200
            # From here on nothing that the member does can undo it.
            assert ask_as_member("DELETE", path).status_code == 403
            assert owner.get(f"{path}/budget").json()["limit_usd"] == BUDGET["limit_usd"]
            assert owner.delete(path).status_code == 200
            assert ask_as_member("POST", "/proxy-endpoints", json=new).status_code == 201
            assert owner.get(f"{path}/budget").json()["limit_usd"] == BUDGET["limit_usd"]
            assert owner.get(path).json()["metadata_only"] is False
            assert owner.delete(f"{path}/budget").status_code == 200
