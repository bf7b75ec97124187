"""People with sessions for the tests of the pages, and forms as a browser sends them."""

from starlette.testclient import TestClient

from store import api_keys, people
from store.control import ControlDatabase
from store.sign_in import SignIn

BASE_URL = "http://meter.example:8080"
HERE = {"origin": BASE_URL}


class Person:
    """Who is signed in with a browser of their own."""

    def __init__(self, app, control: ControlDatabase, email: str, organization_id=None) -> None:
        with control.transaction() as db:
            self.user_id = people.create_user(db, email)
            if organization_id is None:
                self.organization_id = people.create_organization(db, f"{email} Ltd").id
                people.join(db, self.organization_id, self.user_id, "owner")
            else:
                self.organization_id = organization_id
                people.join(db, self.organization_id, self.user_id, "member")
        self.email = email
        self.control = control
        self.browser = TestClient(app, base_url=BASE_URL, follow_redirects=False)
        self.sign_in()

    def sign_in(self) -> None:
        session = SignIn(self.control).use_link(SignIn(self.control).make_link(self.user_id))
        assert session is not None
        self.browser.cookies.set("taximeter", session.token)

    def make_key(self, name="script"):
        with self.control.transaction() as db:
            return api_keys.create(db, self.organization_id, self.user_id, name)

    def get(self, path, **headers):
        return self.browser.get(path, headers=headers)

    def post(self, path, **fields):
        return self.browser.post(path, data=fields, headers=HERE)
