"""The running service as those who visit it know it: an address, links that sign in, clients."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from manage.user_commands import make_link
from store.control import ControlDatabase
from store.settings import Settings
from tests.browser.visitor import Visitor
from tests.live.service import REQUEST_HEADERS, Service
from tests.rawclient import Response, request
from tests.upstream import Upstream

_REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Site:
    service: Service
    upstream: Upstream
    _sessions: dict[str | None, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{self.service.host}"

    def run(self, *arguments: str) -> str:
        """A command of the operator; what it prints."""
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "manage.cli", *arguments],
            cwd=_REPOSITORY,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def make_link(self, email: str | None = None) -> str:
        """What `taximeter users link` prints, without waiting for Python to start."""
        settings = Settings.from_env(self._environment)
        with ControlDatabase(settings.control_path) as control:
            return make_link(settings, control, email)

    @property
    def _environment(self) -> dict[str, str]:
        return self.service.environment | {"TAXIMETER_BASE_URL": self.url}

    def sign_in(self, visitor: Visitor, email: str | None = None) -> None:
        """By a link, the first time; later visitors get the cookie of the first, which is quicker.
        Whoever signs out should use a link."""
        if email in self._sessions:
            visitor.set_cookie("taximeter", self._sessions[email], httpOnly=True)
            return
        visitor.open(self.make_link(email))
        visitor.follow("Sign in to Taximeter", "button")
        self._sessions[email] = visitor.cookies()["taximeter"]["value"]

    def call(self, body: bytes = b"{}", slug: str = "default", *more: tuple[str, str]) -> Response:
        """A message call through the front door, as a client makes it."""
        headers = [*REQUEST_HEADERS, *more]
        return self.service.send(request("POST", f"/proxy/{slug}/v1/messages", headers, body))
