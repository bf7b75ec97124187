"""A running service with all that its visitors use: sign-in links, clients, mail, providers."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dashboard.visitors import cookie_name
from store.control.database import ControlDatabase
from store.control.sign_in import SignIn
from tests.browser.visitor import Visitor
from tests.github_stand_in import CLIENT_ID, CLIENT_SECRET, GitHub
from tests.live.service import REQUEST_HEADERS, Service
from tests.mailbox import Mailbox
from tests.openid import OpenIdProvider, run_openid_provider
from tests.rawclient import TIMEOUT_S, Response, request
from tests.upstream import Upstream

SIGN_IN = "Sign in to Taximeter"
ACCOUNT = "Account: {}"  # the menu that has the button for signing out
"""The one button of the page that a link opens."""


@dataclass(frozen=True)
class Site:
    service: Service
    upstream: Upstream
    mailbox: Mailbox
    github: GitHub
    google: OpenIdProvider

    @property
    def url(self) -> str:
        return f"http://{self.service.host}"

    @property
    def cookie(self) -> str:
        """Return the name of the cookie of who is signed in here."""
        return cookie_name(self.url)

    def make_link(self, email: str | None = None) -> str:
        """Return a sign-in link for the local user, or for an address, which may be new.

        It is made in this process: `taximeter users link` would wait for Python to start."""
        with self.control() as control:
            token = _make_token(control, email)
        return f"{self.url}/sign-in/link?token={token}"

    def sign_in(self, visitor: Visitor, email: str | None = None) -> None:
        """Sign a visitor in by a cookie, which takes no page. The address may be new."""
        with self.control() as control:
            session = SignIn(control).use_link(_make_token(control, email))
        assert session
        visitor.set_cookie(self.cookie, session.token, httpOnly=True)

    # --- what the database says ---

    @contextmanager
    def control(self) -> Iterator[ControlDatabase]:
        """Open ``control.db``."""
        with ControlDatabase(self.service.data_dir / "control.db") as control:
            yield control

    def homes(self, email: str) -> list[tuple[str, str]]:
        """Return the ids of all users with this address, and of the organisations they are in."""
        with self.control() as control, control.reading() as db:
            return db.execute(
                "select u.id, m.organization_id from users u join memberships m on m.user_id = u.id"
                " where u.email = ?",
                (email,),
            ).fetchall()

    # --- calls ---

    def call(
        self,
        body: bytes = b"{}",
        slug: str = "default",
        *more: tuple[str, str],
        timeout_s: float = TIMEOUT_S,
    ) -> Response:
        """Make a message call through the front door, as a client does."""
        headers = [*REQUEST_HEADERS, *more]
        with self.service.connect(timeout_s=timeout_s) as client:
            return client.exchange(request("POST", f"/proxy/{slug}/v1/messages", headers, body))

    def count_calls(self, slug: str = "%") -> int:
        """Return how many entries an endpoint has, once all calls so far have become entries."""
        self.service.wait_spool_empty()
        sql = "select count(*) from usage where slug like ?"
        return sum(_read(path, sql, slug) or 0 for path in self._trace_paths())

    def find_newest_call(self) -> int:
        """Return the id of the newest entry of the default endpoint, once all calls so far have become
        entries."""
        self.service.wait_spool_empty()
        sql = "select max(id) from usage where slug = 'default'"
        found = [_read(path, sql) for path in self._trace_paths()]
        return max(each for each in found if each is not None)

    def _trace_paths(self) -> list[Path]:
        return list(self.service.data_dir.glob("traces/*/traces.db"))

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


def _make_token(control: ControlDatabase, email: str | None) -> str:
    """Return the token of a sign-in link."""
    if email is not None:
        return SignIn(control).make_email_link(email)
    user_id = control.find_user(None)
    assert user_id, "there is no local user"
    return SignIn(control).make_link(user_id)


def _read(path: Path, sql: str, *values: str) -> int | None:
    """Return the only value that a query finds in a database."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as db:
        (value,) = db.execute(sql, values).fetchone()
    return None if value is None else int(value)
