"""A service to sign in to, in this process, with settings of the test's choice."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from manage.server import make_app
from manage.supervision import workers
from runtime.settings import Settings
from store.control.database import ControlDatabase

BASE_URL = "http://meter.example:8080"
PAGE = "text/html,application/xhtml+xml"


@dataclass(frozen=True)
class Site:
    settings: Settings
    control: ControlDatabase
    client: TestClient
    printed: list[str] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return self.settings.base_url

    def post(self, path, data=None, **headers):
        ours = {"origin": self.base_url} | headers
        return self.client.post(path, data=data or {}, headers=ours)

    def open_link(self, link, **headers):
        """Open it, press its button."""
        path = link.removeprefix(self.base_url)
        page = self.client.get(path)
        assert page.status_code == 200, page.text
        token = urlsplit(path).query.removeprefix("token=")
        return self.post("/sign-in/link", {"token": token}, **headers)

    def is_signed_in(self) -> bool:
        return self.client.get("/", headers={"accept": PAGE}).status_code == 200

    def user_ids(self):
        with self.control.reading() as db:
            return dict(db.execute("select email, id from users"))


@contextmanager
def run_site(data_dir: Path, *, is_demo: bool = False, **variables: str) -> Iterator[Site]:
    named = {f"TAXIMETER_{name.upper()}": text for name, text in variables.items()}
    settings = Settings.from_env(
        {"TAXIMETER_DATA_DIR": str(data_dir), "TAXIMETER_BASE_URL": BASE_URL} | named
    )
    printed: list[str] = []
    with ControlDatabase(settings.control_path) as control, pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "COUNT", 1)  # a quarter of the threads and connections
        control.set_up()
        app = make_app(settings, printed.append, is_demo=is_demo)
        with TestClient(app, base_url=settings.base_url, follow_redirects=False) as client:
            yield Site(settings, control, client, printed)
