"""A running service with all that its visitors use: sign-in links, clients, mail, providers."""

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from manage.cli.user_commands import make_link
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.control.sign_in import SignIn
from tests import ROOT
from tests.browser.visitor import Visitor
from tests.github_stand_in import CLIENT_ID, CLIENT_SECRET, GitHub
from tests.live.service import REQUEST_HEADERS, Service
from tests.mailbox import Mailbox, link_in
from tests.openid import OpenIdProvider, run_openid_provider
from tests.rawclient import Response, request
from tests.upstream import Upstream

SIGN_IN = "Sign in to Taximeter"
"""The one button of the page that a link opens."""

_PRINTED_LINK = r"\({address}\):\s+(http://\S+/sign-in/link\?token=\S{{43}})"


@dataclass(frozen=True)
class Site:
    service: Service
    upstream: Upstream
    mailbox: Mailbox
    github: GitHub
    google: OpenIdProvider
    _sessions: dict[str | None, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{self.service.host}"

    def run(self, *arguments: str) -> str:
        """Run a command of the operator, and return what it prints."""
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "manage.cli.main", *arguments],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def make_link(self, email: str | None = None) -> str:
        """Return a sign-in link for the local user, or for an address, which may be new.

        It is made in this process: `taximeter users link` would wait for Python to start."""
        settings = Settings.from_env(self._environment)
        with ControlDatabase(settings.control_path) as control:
            if email is None:
                return make_link(settings, control, None)
            token = SignIn(control).make_email_link(email)
        return f"{self.url}/sign-in/link?token={token}"

    @property
    def _environment(self) -> dict[str, str]:
        return self.service.environment | {"TAXIMETER_BASE_URL": self.url}

    # --- signing in ---

    def sign_in(self, visitor: Visitor, email: str | None = None) -> None:
        """Sign a visitor in: the first by a link, the others by the cookie of the first.

        That is quicker. A test that signs out should use a link."""
        if email in self._sessions:
            visitor.set_cookie("taximeter", self._sessions[email], httpOnly=True)
            return
        self.sign_in_by_link(visitor, email)
        self._sessions[email] = visitor.cookies()["taximeter"]["value"]

    def sign_in_by_link(self, visitor: Visitor, email: str | None = None) -> None:
        visitor.open(self.make_link(email))
        visitor.follow(SIGN_IN, "button")

    def ask_for_mail(self, visitor: Visitor, email: str) -> str:
        """Type the address into the page that is open, and return the link of the mail that comes.

        The service sends 20 mails in a quarter of an hour to who asks from one address."""
        mailbox = email.lower()
        number = len(self.mailbox.to(mailbox)) + 1
        visitor.fill("E-mail address", email)
        visitor.follow("Send me a link", "button")
        visitor.see(f"A link is on its way to {mailbox}.")
        return link_in(self.mailbox.wait_for(mailbox, number))

    # --- what the database says ---

    @contextmanager
    def control(self) -> Iterator[sqlite3.Connection]:
        """Open ``control.db``, to look at it and to make things older than they are."""
        path = self.service.data_dir / "control.db"
        with closing(sqlite3.connect(path, timeout=10)) as db, db:
            yield db

    def expire_links(self, email: str) -> None:
        self._make_old("sign_in_links", "expires_at", "email = ?", email)

    def age_sessions(self, email: str, column: Literal["created_at", "seen_at"]) -> None:
        """Make all sessions of a person old, as if begun, or used last, long ago."""
        whose = "user_id = (select id from users where email = ?)"
        self._make_old("sessions", column, whose, email)

    def _make_old(self, table: str, column: str, condition: str, email: str) -> None:
        sql = f"update {table} set {column} = '2020-01-01T00:00:00.000Z' where {condition}"  # noqa: S608
        with self.control() as db:
            assert db.execute(sql, (email,)).rowcount > 0, f"nothing of {email} in {table}"

    def homes(self, email: str) -> list[tuple[str, str]]:
        """Return the ids of all users with this address, and of the organisations they are in."""
        with self.control() as db:
            return db.execute(
                "select u.id, m.organization_id from users u join memberships m on m.user_id = u.id"
                " where u.email = ?",
                (email,),
            ).fetchall()

    # --- calls ---

    def call(self, body: bytes = b"{}", slug: str = "default", *more: tuple[str, str]) -> Response:
        """Make a message call through the front door, as a client does."""
        headers = [*REQUEST_HEADERS, *more]
        return self.service.send(request("POST", f"/proxy/{slug}/v1/messages", headers, body))

    def count_calls(self, slug: str = "%") -> int:
        """Return how many entries an endpoint has, once all calls so far have become entries."""
        self.service.wait_spool_empty()
        return sum(_count(path, slug) for path in self.service.data_dir.glob("traces/*/traces.db"))

    def get(self, path: str, key: str) -> Response:
        """Send a request with a service API key, as a script does."""
        return self.service.get(path, [("Authorization", f"Bearer {key}")])


@contextmanager
def run_site(folder: Path) -> Iterator[Site]:
    """Run a service with a mail server, GitHub and Google."""
    with (
        Upstream() as upstream,
        Mailbox() as mailbox,
        GitHub() as github,
        run_openid_provider() as google,
    ):
        settings = {
            "SMTP_URL": f"smtp://127.0.0.1:{mailbox.port}",
            "MAIL_FROM": "Taximeter <meter@example.org>",
            "GITHUB_CLIENT_ID": CLIENT_ID,
            "GITHUB_CLIENT_SECRET": CLIENT_SECRET,
            "GITHUB_URL": github.url,
            "GITHUB_API_URL": github.url,
            "GOOGLE_CLIENT_ID": "our-client",
            "GOOGLE_CLIENT_SECRET": "the-secret-of-the-client-at-google",
            "GOOGLE_ISSUER": google.url,
        }
        with Service(folder, upstream.url, **settings) as service:
            site = Site(service, upstream, mailbox, github, google)
            github.callback = f"{site.url}/sign-in/github/callback"
            yield site
        assert upstream.faults == []
        assert github.faults == []


def find_printed_link(service: Service, email: str) -> str:
    """Return the link that a service without a mail server prints for this address."""
    pattern = re.compile(_PRINTED_LINK.format(address=re.escape(email)))
    service.wait_until(lambda: pattern.search(service.output), f"a link for {email}")
    found = pattern.search(service.output)
    assert found
    return found[1]


def _count(path: Path, slug: str) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as db:
        found = db.execute("select count(*) from usage where slug like ?", (slug,)).fetchone()
    return int(found[0])
