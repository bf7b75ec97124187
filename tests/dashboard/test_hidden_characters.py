"""Characters that nobody would see, or that turn the direction of writing around, are shown by name on
every page, wherever they come from."""

import html
import re
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from runtime.clock import now
from runtime.safe_text import reveal
from store.control import api_keys, invitations, people
from store.control.sign_in import SignIn
from tests.dashboard.people import BASE_URL, Person
from tests.proxy_endpoints import create_endpoint
from tests.store.traffic import make_item

EVIL = "evil\u202etxt.exe\u2066\u200b\x1b[31m\x9b\u2028end"
NAMED = reveal(EVIL)
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


class Owner(Person):
    pages: tuple[str, ...]


@pytest.fixture
def ann(app, control, settings):
    """The owner of an organisation in which every name is evil, whatever our forms refuse."""
    ann = Owner(app, control, settings.data_dir, "ann@example.org")
    endpoint = create_endpoint(control, ann.organization_id, "team")
    with control.transaction() as db:
        key, _ = api_keys.create(db, ann.organization_id, ann.user_id, "key")
        member = people.create_user(db, "member@example.org")
        people.join(db, ann.organization_id, member, "member")
        invitations.create(db, ann.organization_id, "x@example.org", EVIL, now())
        other = people.create_organization(db, "other")
        invitations.create(db, other.id, ann.email, EVIL, now())
        for statement in (
            "update proxy_endpoints set name = ?",
            "update api_keys set name = ?",
            "update organizations set name = ?",
        ):
            db.execute(statement, (EVIL,))
        db.execute("update users set email = ? where id = ?", (f"{EVIL}@x", member))
    ann.pages = (
        "/",
        "/settings/endpoints",
        "/settings/budgets",
        "/settings/data",
        "/settings/people",
        "/settings/security",
        f"/settings/endpoints/{endpoint.id}",
        f"/settings/endpoints/{endpoint.id}/delete",
        f"/settings/keys/{key.id}/delete",
        f"/settings/members/{member}/remove",
    )
    body = f'{{"messages": [{{"role": "user", "content": "{EVIL}"}}]}}'.encode()
    ann.record(
        {
            "model": EVIL,
            "request_model": EVIL,
            "slug": EVIL,
            "session_id": EVIL,
            "agent_id": EVIL,
            "client": EVIL,
            "error_type": EVIL,
            "outcome": "upstream_error",
            "ttfb_ms": 1.0,
            "cost_items": (make_item(model=EVIL),),
            "request_body": body,
            "response_body": EVIL.encode(),
        },
        {"model": None, "request_model": EVIL},
        created_at=now_text(),
    )
    return ann


def now_text():
    return now().strftime("%Y-%m-%dT%H:%M:%S.000Z")


def shown(page):
    """The page without the values of inputs, which send back what was typed."""
    text = re.sub(r"<textarea.*?</textarea>", "", page, flags=re.DOTALL)
    return re.sub(r'(<input[^>]*) value="[^"]*"', r"\1", text)


def assert_named(answer, path):
    text = html.unescape(shown(answer.text))
    assert reveal(text) == text, path
    assert NAMED in text, path


def test_our_own_pages_show_them_by_name(ann):
    for path in ann.pages:
        answer = ann.get(path)
        assert answer.status_code == 200, path
        assert_named(answer, path)


def test_titles_show_them_by_name(ann):
    for path in (*ann.pages[6:8], "/calls/1", f"/traces/usage?slug={quote(EVIL)}"):
        title = re.search(r"<title>(.*?)</title>", ann.get(path).text, re.DOTALL)
        assert title is not None
        assert NAMED in html.unescape(title[1]), path


FACETS = "&".join(f"_facet={name}" for name in ("slug", "model", "client", "error_type"))


def test_tables_facets_and_queries_show_them_by_name(ann):
    for path in (
        "/traces/usage",
        f"/traces/usage?{FACETS}",
        f"/traces/usage?_col=model&_col=slug&client__contains={quote(EVIL)}",
        f"/traces/usage?_where=slug='{quote(EVIL)}'",
        "/calls/1",
        "/traces/usage/1/request/read",
        "/traces/usage/1/response/raw",
        "/traces/usage_log",
        "/traces/usage_cost",
        "/traces/usage_cost/1,0",
        "/traces/usage_hourly",
        "/traces/response_bodies/1",
        "/traces/cost_by_day_and_model?days=9999",
        "/traces/cost_by_session?days=9999",
        "/traces/errors_by_type?days=9999",
        "/traces/slowest_first_bytes?days=9999",
        "/traces/read_body?id=1&which=response",
        f"/traces?sql=select+'{quote(EVIL)}'+as+[{quote(EVIL)}]",
        f"/traces?sql=select+'https://example.org/{quote(EVIL)}'+as+link",
    ):
        answer = ann.get(path)
        assert answer.status_code == 200, path
        assert_named(answer, path)


def test_errors_show_them_by_name(ann):
    for path in (
        f"/traces?sql=select+{quote(EVIL)}",
        f"/traces/usage?_sort={quote(EVIL)}",
        f"/traces/usage?_size={quote(EVIL)}",
        f"/traces/usage?_facet={quote(EVIL)}",
        f"/traces/{quote(EVIL)}",
        f"/{quote(EVIL)}",
    ):
        answer = ann.browser.get(path, follow_redirects=True)
        assert answer.status_code >= 400, path
        text = html.unescape(shown(answer.text))
        assert reveal(text) == text, path


def test_an_input_keeps_what_was_typed(ann):
    """A name that is shown in a form and saved again stays the same name."""
    assert f'name="name" value="{html.escape(EVIL)}"' in ann.get(ann.pages[6]).text


def test_the_page_of_an_invitation_shows_them_by_name(app, ann, control):
    with control.reading() as db:
        invitation = invitations.list_for(db, ann.email, now())[0]
    token = SignIn(control).make_invitation_link(invitation)
    stranger = TestClient(app, base_url=BASE_URL)
    assert_named(stranger.get(f"/sign-in/link?token={token}"), "link")
