"""One service for all tests here, whose worker gets all of these files (tests/scheduling.py)."""

from collections.abc import Iterator

import pytest

from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.users import Users
from tests.live.organizations.world import Person, World
from tests.live.service import Service
from tests.manage.organizations import make_people
from tests.upstream import Upstream


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("management")
    # A test that sends an x-forwarded-for comes from that address.
    with (
        Upstream() as upstream,
        Service(folder, upstream.url, TRUSTED_PROXIES="127.0.0.1") as service,
    ):
        with ControlDatabase(service.data_dir / "control.db") as control:
            management = Management(control, service.data_dir)
            made = make_people(management, Users(control))
            persons = {
                name: Person(service, management.create_key(getattr(made, name), "first")[1])
                for name in ("ann", "bob", "cid", "dee")
            }
        yield World(service=service, upstream=upstream, **persons)
        assert upstream.faults == []
