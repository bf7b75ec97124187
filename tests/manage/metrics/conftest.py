"""The application with two organisations that have recorded calls."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from manage.server import make_app
from runtime.settings import CLIENT_MARK_VARIABLE, Settings
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.people import Caller
from store.control.users import Users
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.manage.organizations import make_people
from tests.store.traffic import make_entry

MARK = "a-mark-of-the-front-door"
TOKEN = "the-token-of-the-operator"

type Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    data_dir: Path
    ours: Caller
    theirs: Caller
    our_key: str


@pytest.fixture
def site(tmp_path: Path) -> Site:
    data_dir = tmp_path / "data"
    with ControlDatabase(data_dir / "control.db") as control:
        control.set_up()
        management = Management(control, data_dir)
        people = make_people(management, Users(control))
        _, our_key = management.create_key(people.ann, "metrics")
    for caller, slug, cents in ((people.ann, "ours", 150), (people.cid, "theirs", 250)):
        with TraceDatabase(trace_path(data_dir, caller.organization_id)) as traces:
            traces.insert(
                [
                    make_entry(
                        slug=slug, model="claude-opus-5-5", cost_cents=Decimal(cents),
                        input_tokens=10, output_tokens=20, cache_creation_input_tokens=30,
                        cache_read_input_tokens=40, ttfb_ms=300.0, duration_ms=2000.0,
                        proxy_overhead_ms=1.5,
                    ),
                    make_entry(slug=slug, model='say "hi"\n\\', outcome="upstream_error"),
                ]
            )  # fmt: skip
    return Site(data_dir=data_dir, ours=people.ann, theirs=people.cid, our_key=our_key)


@pytest.fixture
def settings_given() -> dict[str, str]:
    return {}


@pytest.fixture
def client(
    site: Site, settings_given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestClient]:
    """A client behind the front door: the header ``x-taximeter-client`` says where it is."""
    monkeypatch.setenv(CLIENT_MARK_VARIABLE, MARK)
    settings = Settings.from_env(
        {"TAXIMETER_DATA_DIR": str(site.data_dir), "TAXIMETER_METRICS_TOKEN": TOKEN}
        | settings_given
    )
    app = make_app(settings, lambda _line: None)
    with TestClient(app, base_url="http://127.0.0.1:8080", follow_redirects=False) as client:
        client.headers["x-taximeter-client"] = f"{MARK} 127.0.0.1"
        yield client


type Scrape = Callable[..., Samples]


@pytest.fixture
def scrape(client: TestClient) -> Scrape:
    """Returns the samples of a scrape, as Prometheus' own parser reads them."""

    def scrape(**headers: str) -> Samples:
        response = client.get("/metrics", headers=headers)
        assert response.status_code == 200, response.text
        return parse(response.text)

    return scrape


def parse(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def find(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]
