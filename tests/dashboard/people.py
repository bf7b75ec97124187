"""People for the tests of the pages: each with a session, a key and a file of traces."""

from functools import cached_property

from starlette.testclient import TestClient

from dashboard.visitors import cookie_name
from store.control import api_keys, people
from store.control.database import ControlDatabase
from store.control.people import Role
from store.control.sign_in import SignIn
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry

BASE_URL = "http://meter.example:8080"
HERE = {"origin": BASE_URL}
COOKIE, FLOW_COOKIE = cookie_name(BASE_URL), cookie_name(BASE_URL, "taximeter-provider")


def open_browser(app):
    """A client in the loop that the application runs in, if it does: otherwise each request starts a
    thread with a loop of its own."""
    browser = TestClient(app, base_url=BASE_URL, follow_redirects=False)
    browser.portal = getattr(app.state, "portal", None)
    return browser


class Someone:
    """A signed-in user: the owner of an organisation of their own, or a member of another's.

    ``find_app`` gives the service for the browser, which sends forms as our pages do; ``base_url`` is
    where it is reached."""

    def __init__(
        self,
        control: ControlDatabase,
        data_dir,
        email: str,
        organization_id=None,
        find_app=None,
        base_url=BASE_URL,
    ) -> None:
        role: Role = "member" if organization_id else "owner"
        with control.transaction() as db:
            self.user_id = people.create_user(db, email)
            self.organization_id = (
                organization_id or people.create_organization(db, f"{email} Ltd").id
            )
            people.join(db, self.organization_id, self.user_id, role)
        self.email = email
        self.control = control
        self._find_app = find_app
        self._cookie = cookie_name(base_url)
        self.path = trace_path(data_dir, self.organization_id)
        self.sign_in()

    def sign_in(self) -> None:
        """Sign in with a new session; an earlier one stays valid."""
        self.session = SignIn(self.control).sign_in(self.email)
        self.cookie = {"cookie": f"{self._cookie}={self.session}"}
        if "browser" in vars(self):
            self.browser.cookies.set(COOKIE, self.session)

    @cached_property
    def browser(self):
        browser = open_browser(self._find_app())
        browser.cookies.set(COOKIE, self.session)
        return browser

    def get(self, path, **headers):
        return self.browser.get(path, headers=headers)

    def post(self, path, **fields):
        return self.browser.post(path, data=fields, headers=HERE)

    def make_key(self, name="script"):
        """The key and its raw form."""
        with self.control.transaction() as db:
            return api_keys.create(db, self.organization_id, self.user_id, name)

    @cached_property
    def bearer(self):
        """Headers with a service API key, which is made now."""
        self.key, self.raw_key = self.make_key()
        return {"authorization": f"Bearer {self.raw_key}"}

    def record(self, *calls, **changes):
        """One more call, or several; the id of the last."""
        with TraceDatabase(self.path) as traces:
            traces.insert([make_entry(**(changes | call)) for call in calls or ({},)])
            return traces.count_entries()


class Person(Someone):
    """Somebody with a browser of their own, for a service that runs already."""

    def __init__(self, app, control, data_dir, email, organization_id=None) -> None:
        super().__init__(control, data_dir, email, organization_id, lambda: app)
