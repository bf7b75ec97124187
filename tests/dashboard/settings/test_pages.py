"""The settings: endpoints, keys, members, organisations; and that nobody reaches another's."""

import html
import logging
import os
import pwd
import re
from dataclasses import replace
from decimal import Decimal

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from dashboard import notices
from dashboard.mail.mailer import MailError
from dashboard.settings import members as member_settings, view
from manage.server import make_app
from runtime import clock
from runtime.setting_values import parse_upstreams
from store.control import activity_log
from store.control.management import Management
from store.control.retention import Rule
from store.control.sign_in import Origin, SignIn
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.dashboard.pages import Page, words_of
from tests.dashboard.people import BASE_URL, COOKIE, HERE
from tests.proxy_endpoints import create_endpoint
from tests.store.traffic import make_entry

PARTS = tuple(part.address for part in view.PARTS)
FORMS = (
    "/settings/new-endpoint",
    "/settings/budgets/organization",
    "/settings/data/retention",
    "/settings/people/invite",
    "/settings/people/new-key",
)
RAW_KEY = re.compile(r"sk_[A-Za-z0-9_-]{43}")


class Mailbox:
    """Stands in for the mail server, and says whether there is one."""

    def __init__(self) -> None:
        self.can_send = True
        self.prints = False
        self.is_broken = False
        self.mails: list[tuple[str, str, str]] = []

    def __call__(self, _settings, _say):
        return self

    async def send(self, to, subject, text):
        if self.is_broken:
            raise MailError("the server did not respond in time")
        self.mails.append((to, subject, text))

    @property
    def links(self):
        return re.findall(
            rf"{BASE_URL}(/sign-in/link\?token=\S+)", "\n".join(m[2] for m in self.mails)
        )


@pytest.fixture
def management(control, settings):
    return Management(control, settings.data_dir)


@pytest.fixture
def mailbox(monkeypatch):
    mailbox = Mailbox()
    monkeypatch.setattr("manage.server.Mailer", mailbox)
    return mailbox


@pytest.fixture
def app(mailbox, app):  # the mailbox first: it stands in for what the application makes
    return app


@pytest.fixture
def record_of(settings):
    """A call of somebody's organisation, made just now."""

    def record(person):
        path = trace_path(settings.data_dir, person.organization_id)
        with TraceDatabase(path) as traces:
            traces.insert([make_entry(created_at=clock.format_ms(clock.now()))])

    return record


def caller(management, person):
    return management.find_caller(person.email)


def actions(control, organization_id):
    """Return the actions in the activity log after signing in, newest first."""
    with control.reading() as db:
        done = [entry.action for entry in activity_log.read(db, organization_id)]
    return [action for action in done if action != "user.sign_in"]


def test_owners_see_who_signed_in_and_what_the_operator_did(ann, management, control):
    SignIn(control).sign_in(ann.email, Origin(method="github", client="192.0.2.7"))
    SignIn(control).make_link(control.find_user(ann.email))
    management.create_key(management.find_caller(ann.email, is_operator=True), "ci")
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", ann.get("/settings/security").text))
    assert "signed in (github) from 192.0.2.7" in page
    operator = f"the operator ({pwd.getpwuid(os.getuid()).pw_name})"
    assert f"{operator} made a sign-in link for {ann.email}" in page
    assert f"{operator} created the key ci for {ann.email}" in page


# -- endpoints ------------------------------------------------------------------------------------


def test_an_endpoint_is_created_changed_and_deleted(ann, control, management):
    answer = ann.post("/settings/endpoints", name="Café #1", streaming="buffered")
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        "/settings/endpoints?done=endpoint-created",
    )
    page = ann.get("/settings/endpoints?done=endpoint-created").text
    assert "The endpoint was created" in page
    assert f'data-copy="{BASE_URL}/proxy/cafe-1"' in page
    assert ">buffered<" in page
    (endpoint,) = management.list_endpoints(caller(management, ann)).items

    here = f"/settings/endpoints/{endpoint.id}"
    assert 'value="Café #1"' in ann.get(here).text
    answer = ann.post(here, name="Café", streaming="service", metadata_only="1")
    assert answer.headers["location"] == "/settings/endpoints?done=endpoint-changed"
    (changed,) = management.list_endpoints(caller(management, ann)).items
    assert (changed.name, changed.slug, changed.streaming) == ("Café", "cafe-1", None)
    assert changed.metadata_only
    assert "metadata only" in ann.get("/settings/endpoints").text
    assert "checked" in ann.get(here).text

    assert "stays reserved" in ann.get(f"{here}/delete").text
    assert management.list_endpoints(caller(management, ann)).items, "asking deletes nothing"
    answer = ann.post(f"{here}/delete")
    assert answer.headers["location"] == "/settings/endpoints?done=endpoint-deleted"
    assert not management.list_endpoints(caller(management, ann)).items
    assert actions(control, ann.organization_id) == [
        "endpoint.delete",
        "endpoint.update",
        "endpoint.create",
    ]


def test_without_upstreams_the_forms_do_not_speak_of_them(ann):
    assert "pstream</label>" not in ann.get("/settings/new-endpoint").text


class TestWithUpstreams:
    @pytest.fixture
    def settings(self, settings):
        return replace(settings, upstreams=parse_upstreams("eu=https://eu.example.org"))

    def test_an_endpoint_gets_one_of_them(self, ann, bob, management):
        new = ann.get("/settings/new-endpoint").text
        assert '<option value="service" selected>Service default' in new
        assert '<option value="eu">eu (https://eu.example.org)</option>' in new
        assert ann.post("/settings/endpoints", name="Europe", upstream="eu").is_redirect
        (endpoint,) = management.list_endpoints(caller(management, ann)).items
        assert endpoint.upstream == "eu"
        assert "→ eu" in ann.get("/settings/endpoints").text
        here = f"/settings/endpoints/{endpoint.id}"
        assert '<option value="eu" selected>' in ann.get(here).text
        assert '<select id="change-upstream" name="upstream" disabled' in bob.get(here).text
        assert bob.post(here, name="Other").is_redirect
        refused = ann.post(here, name="Other", upstream="nowhere")
        assert refused.status_code == 400
        assert 'id="change-upstream-problem"' in refused.text
        assert ann.post(here, name="Other", upstream="service").is_redirect
        (endpoint,) = management.list_endpoints(caller(management, ann)).items
        assert (endpoint.name, endpoint.upstream) == ("Other", None)

    def test_one_that_is_gone_is_named(self, ann, control, settings, management):
        allowing = Management(control, settings.data_dir, upstreams={"old"})
        endpoint = allowing.create_endpoint(caller(management, ann), "Team", upstream="old")
        assert "→ old (not named any more)" in ann.get("/settings/endpoints").text
        page = ann.get(f"/settings/endpoints/{endpoint.id}").text
        assert "old (not named any more: calls get 503)" in page


@pytest.mark.parametrize("guard", ["a budget", "a retention rule"])
def test_an_endpoint_with_a_decision_of_an_owner_is_theirs_to_change(ann, bob, management, guard):
    owner = caller(management, ann)
    endpoint = management.create_endpoint(owner, "Team")
    here = f"/settings/endpoints/{endpoint.id}"
    assert "only an owner" not in bob.get(here).text
    if guard == "a budget":
        management.budgets.put(owner, endpoint.id, period="day", limit_usd=1, action="warn")
    else:
        management.removal.write_rule(owner, Rule(text_days=1), endpoint.id)
    page, asking = bob.get(here).text, bob.get(f"{here}/delete").text
    for text in (page, asking):
        assert f"has {guard}: only an owner of the organisation can" in text
    assert "<fieldset disabled>" in page
    assert f'href="{here}/delete"' not in page
    assert f'action="{here}/delete"' not in asking
    for path, fields in ((here, {"name": "Other"}), (f"{here}/delete", {})):
        refused = bob.post(path, **fields)
        assert refused.status_code == 403
        assert f"an endpoint that has {guard}" in refused.text
    assert management.list_endpoints(owner).items == [endpoint]
    assert "<fieldset disabled>" not in ann.get(here).text
    assert ann.post(f"{here}/delete").status_code == 303


@pytest.mark.parametrize("before", [True, False])
def test_a_member_changes_an_endpoint_without_touching_its_bodies(ann, bob, management, before):
    endpoint = management.create_endpoint(caller(management, ann), "Team", metadata_only=before)
    here = f"/settings/endpoints/{endpoint.id}"
    assert "Only an owner of the organisation can change this." in bob.get(here).text
    assert "Only an owner" not in ann.get(here).text
    assert bob.post(here, name="Other", **({} if before else {"metadata_only": "1"})).is_redirect
    (changed,) = management.list_endpoints(caller(management, ann)).items
    assert (changed.name, changed.metadata_only) == ("Other", before)


@pytest.mark.parametrize(
    ("fields", "status", "words", "field"),
    [
        ({"name": ""}, 400, "needs a name", "name"),
        ({"name": "x" * 201}, 400, "longer than 200 characters", "name"),
        ({"name": "two\nlines"}, 400, "one line of text", "name"),
        ({"name": "team", "slug": "Not A Slug"}, 400, "is not a valid slug", "slug"),
        ({"name": "team", "slug": "default"}, 409, "is taken", "slug"),
        ({"name": "team", "streaming": "sometimes"}, 400, "Streaming is live", "streaming"),
        ({}, 400, "needs a name", "name"),
    ],
)
def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_stays(
    ann, fields, status, words, field
):
    answer = ann.post("/settings/endpoints", **fields, metadata_only="1")
    assert answer.status_code == status
    control = re.search(rf'<(?:input|select) id="create-endpoint-{field}".*?>', answer.text, re.S)
    assert control is not None
    assert 'aria-invalid="true"' in control[0]
    described = re.search(r'aria-describedby="(\S+?)[ "]', control[0])
    assert described is not None
    problem = re.search(rf'<p[^>]* id="{described[1]}"[^>]*>(.*?)</p>', answer.text)
    assert problem is not None
    assert words in html.unescape(problem[1])
    if field != "streaming":
        assert (
            html.escape(fields.get(field, "")) in html.unescape(control[0])
            or "\n" in fields["name"]
        )
    assert re.search(r'name="metadata_only" value="1" checked', answer.text)


def test_a_change_that_cannot_be_is_answered_on_its_own_page(ann, control, management):
    endpoint = create_endpoint(control, ann.organization_id, "team")
    here = f"/settings/endpoints/{endpoint.id}"
    answer = ann.post(here, name=" ", streaming="live")
    assert answer.status_code == 400
    assert "needs a name" in answer.text
    assert re.search(r'<option value="live" selected', answer.text)
    assert ann.post(here, name="x", streaming="never").status_code == 400
    assert management.get_endpoint(caller(management, ann), endpoint.id) == endpoint


def test_deleting_twice_is_told_on_the_page(ann, control):
    endpoint = create_endpoint(control, ann.organization_id, "team")
    assert ann.post(f"/settings/endpoints/{endpoint.id}/delete").status_code == 303
    answer = ann.post(f"/settings/endpoints/{endpoint.id}/delete")
    assert answer.status_code == 404
    assert "no longer exists" in answer.text
    assert "`taximeter" not in answer.text


def test_endpoints_lead_to_their_calls_and_tags_have_their_numbers(ann, control, settings):
    create_endpoint(control, ann.organization_id, "Team A", "team-a")
    with TraceDatabase(trace_path(settings.data_dir, ann.organization_id)) as traces:
        at = clock.format_ms(clock.now())
        with control.reading() as db:
            (id_,) = db.execute("select id from proxy_endpoints where slug = 'team-a'").fetchone()
        said = ({"project": "a", "tags": '["env:prod"]'}, {"project": "b", "tags": '["env:test"]'})
        traces.insert(
            [
                make_entry(created_at=at, slug="team-a", proxy_endpoint_id=id_, **each)
                for each in said
            ]
        )
    page = ann.get("/settings/endpoints").text
    assert '<a class="plain" href="/calls?period=7d&amp;endpoint=team-a">2</a>' in page
    words = words_of(page)
    assert "user x-taximeter-user 0 project x-taximeter-project 2 env x-taximeter-tags 2" in words
    assert '<a href="/?by=project">' in page
    assert "nothing checks it: no call is refused or allowed by them" in words


def test_a_long_list_has_pages(ann, control):
    for number in range(103):
        create_endpoint(control, ann.organization_id, f"team {number}", f"team-{number}")
    first = ann.get("/settings/endpoints").text
    assert first.count(">Copy URL<") == 100
    more = re.search(r'href="(/settings/endpoints\?endpoints=[^"]+)"', first)
    assert more is not None
    second = ann.get(html.unescape(more[1])).text
    assert second.count(">Copy URL<") == 3
    assert "Older endpoints" not in second
    assert 'rel="prev" href="/settings/endpoints"' in second
    assert "Newer endpoints" not in first


def test_keys_have_pages_in_both_directions(ann):
    for number in range(205):
        ann.make_key(f"key {number}")

    def names(page):
        return re.findall(r">(key \d+) <code", page)

    def link(page, rel):
        found = re.search(rf'rel="{rel}" href="(/settings/people[^"]*)"', page)
        return None if found is None else html.unescape(found[1])

    pages = [ann.get("/settings/people").text]
    while address := link(pages[-1], "next"):
        pages.append(ann.get(address).text)
    assert [len(names(page)) for page in pages] == [100, 100, 5]
    page, back = pages[-1], [pages[-1]]
    while address := link(page, "prev"):
        page = ann.get(address).text
        back.append(page)
    assert [names(page) for page in back[::-1]] == [names(page) for page in pages]


@pytest.mark.parametrize("query", ["endpoints=nonsense", "keys=%00", "endpoints=" + "x" * 5000])
def test_a_made_up_cursor_is_refused(ann, query):
    part = "people" if "keys" in query else "endpoints"
    assert ann.get(f"/settings/{part}?{query}").status_code == 400


# -- keys -----------------------------------------------------------------------------------------


def form_id(person):
    found = re.search(
        r'name="form_id" value="([^"]+)"', person.get("/settings/people/new-key").text
    )
    assert found is not None
    return found[1]


def test_a_key_is_shown_once_and_is_nowhere_else(ann, settings, app, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    answer = ann.post("/settings/keys", name="laptop", form_id=form_id(ann))
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    assert "it is not shown again" in answer.text
    (raw,) = set(RAW_KEY.findall(answer.text))
    assert "set-cookie" not in answer.headers
    assert raw not in str(answer.url)

    bearer = {"authorization": f"Bearer {raw}"}
    assert (
        TestClient(app, base_url=BASE_URL).get("/api/api-keys", headers=bearer).status_code == 200
    )
    page = ann.get("/settings/people").text
    assert raw not in page
    assert f"{raw[:8]}..." in page
    files = [path for path in settings.data_dir.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if raw.encode() in path.read_bytes()]
    assert raw not in caplog.text
    assert raw not in "".join(capsys.readouterr())


def test_loading_the_answer_anew_makes_no_second_key(ann, management):
    fields = {"name": "laptop", "form_id": form_id(ann)}
    assert ann.post("/settings/keys", **fields).status_code == 201
    again = ann.post("/settings/keys", **fields)
    assert again.status_code == 409
    assert "was sent before" in again.text
    assert not RAW_KEY.search(again.text)
    assert len(management.list_keys(caller(management, ann)).items) == 1


def test_a_form_that_failed_may_be_sent_again(ann):
    id_ = form_id(ann)
    answer = ann.post("/settings/keys", name="", form_id=id_)
    assert answer.status_code == 400
    assert 'aria-invalid="true"' in answer.text
    assert ann.post("/settings/keys", name="laptop", form_id=id_).status_code == 201


def test_a_form_without_an_id_is_carried_out_each_time(ann):
    for _ in range(2):
        assert ann.post("/settings/keys", name="laptop").status_code == 201


def test_of_a_form_id_that_somebody_made_up_only_the_beginning_counts(ann):
    made_up = 15_000 * "x"
    assert ann.post("/settings/keys", name="x", form_id=made_up).status_code == 201
    assert ann.post("/settings/keys", name="x", form_id=made_up[:64]).status_code == 409


def test_the_same_form_id_of_somebody_else_is_another_one(ann, cid):
    for person in (ann, cid):
        assert person.post("/settings/keys", name="x", form_id="same").status_code == 201


def test_a_key_is_deleted_after_asking(ann, app, control):
    key, raw = ann.make_key("old laptop")
    assert "Delete the key old laptop?" in ann.get(f"/settings/keys/{key.id}/delete").text
    answer = ann.post(f"/settings/keys/{key.id}/delete")
    assert answer.headers["location"] == "/settings/people?done=key-deleted"
    bearer = {"authorization": f"Bearer {raw}"}
    assert (
        TestClient(app, base_url=BASE_URL).get("/api/api-keys", headers=bearer).status_code == 401
    )
    assert ann.get(f"/settings/keys/{key.id}/delete").status_code == 404
    assert actions(control, ann.organization_id)[0] == "key.delete"


def test_a_key_beyond_the_first_page_can_be_deleted(ann):
    oldest, _ = ann.make_key("ancient")
    for number in range(100):
        ann.make_key(f"key {number}")
    page = ann.get("/settings/people").text
    assert "ancient" not in page
    more = re.search(r'href="(/settings/people\?keys=[^"]+)"', page)
    assert more is not None
    assert "ancient" in ann.get(html.unescape(more[1])).text
    assert ann.get(f"/settings/keys/{oldest.id}/delete").status_code == 200


# -- members --------------------------------------------------------------------------------------


def test_an_invitation_goes_to_its_address_alone_and_its_link_joins(ann, app, mailbox, control):
    answer = ann.post("/settings/invitations", email="Dora@Example.org")
    assert answer.headers["location"] == "/settings/people?done=invitation-sent"
    ((to, _subject, _text),) = mailbox.mails
    assert to == "dora@example.org"
    (link,) = mailbox.links
    token = link.partition("=")[2]
    assert token not in answer.text
    assert token not in ann.get("/settings/people").text
    assert "dora@example.org" in ann.get("/settings/people").text

    dora = TestClient(app, base_url=BASE_URL, follow_redirects=False)
    assert dora.post("/sign-in/link", data={"token": token}, headers=HERE).status_code == 303
    page = dora.get("/settings/people").text
    assert "ann@example.org" in page
    assert "Only owners can invite" in page
    assert "Send again" not in ann.get("/settings/people").text, "nobody is invited any more"
    assert actions(control, ann.organization_id)[:2] == ["member.join", "user.create"]


def test_sending_again_mails_another_link(ann, mailbox, management):
    ann.post("/settings/invitations", email="dora@example.org")
    (invitation,) = management.list_invitations(caller(management, ann))
    answer = ann.post(f"/settings/invitations/{invitation.id}/send")
    assert answer.headers["location"] == "/settings/people?done=invitation-sent"
    assert len(set(mailbox.links)) == 2


def test_what_was_taken_back_joins_nobody(ann, app, mailbox, management):
    ann.post("/settings/invitations", email="dora@example.org")
    (invitation,) = management.list_invitations(caller(management, ann))
    answer = ann.post(f"/settings/invitations/{invitation.id}/take-back")
    assert answer.headers["location"] == "/settings/people?done=invitation-taken-back"
    token = mailbox.links[0].partition("=")[2]
    dora = TestClient(app, base_url=BASE_URL, follow_redirects=False)
    assert dora.post("/sign-in/link", data={"token": token}, headers=HERE).status_code == 410
    for verb in ("take-back", "send"):
        assert ann.post(f"/settings/invitations/{invitation.id}/{verb}").status_code == 404


def test_without_mail_the_invitation_waits_and_the_page_says_so(ann, mailbox, management):
    mailbox.can_send = False
    assert "sends no mail" in ann.get("/settings/people/invite").text
    answer = ann.post("/settings/invitations", email="dora@example.org")
    assert answer.headers["location"] == "/settings/people?done=invitation-waits"
    assert not mailbox.mails
    assert len(management.list_invitations(caller(management, ann))) == 1
    assert "Send again" not in ann.get("/settings/people").text


def test_on_the_operators_machine_the_link_goes_to_the_terminal(ann, mailbox):
    mailbox.prints = True
    assert "terminal" in ann.get("/settings/people/invite").text
    answer = ann.post("/settings/invitations", email="dora@example.org")
    assert answer.headers["location"] == "/settings/people?done=invitation-printed"


def test_a_mail_that_fails_leaves_the_invitation(ann, mailbox, management):
    mailbox.is_broken = True
    answer = ann.post("/settings/invitations", email="dora@example.org")
    assert answer.headers["location"] == "/settings/people?done=invitation-not-sent"
    assert "could not be sent" in ann.get("/settings/people?done=invitation-not-sent").text
    assert len(management.list_invitations(caller(management, ann))) == 1


@pytest.mark.parametrize(
    ("email", "status", "words"),
    [
        ("nobody", 400, "is not a valid e-mail address"),
        ("", 400, "is not a valid e-mail address"),
        ("ann@example.org", 409, "ann@example.org is already a member"),
        ("a@b.example\nbcc: c@d.example", 400, "is not a valid e-mail address"),
        ("<script>@example.org", 400, "is not a valid e-mail address"),
    ],
)
def test_who_cannot_be_invited_is_said_beside_the_field(ann, mailbox, email, status, words):
    answer = ann.post("/settings/invitations", email=email)
    assert answer.status_code == status
    assert words in html.unescape(answer.text)
    assert 'id="invite-email-problem"' in answer.text
    assert not mailbox.mails


def test_one_mailbox_gets_few_invitations_an_hour(ann, cid, mailbox):
    for _ in range(member_settings.MAILS_PER_MAILBOX):
        assert ann.post("/settings/invitations", email="dora@example.org").status_code == 303
    for person in (ann, cid):
        answer = person.post("/settings/invitations", email="dora@example.org")
        assert answer.status_code == 429, "whoever asks"
        assert int(answer.headers["retry-after"]) > 3000
        assert "Try again in" in answer.text
        assert 'value="dora@example.org"' in answer.text
    assert len(mailbox.mails) == member_settings.MAILS_PER_MAILBOX


def test_one_organisation_mails_few_invitations_an_hour(ann, cid, mailbox, management):
    for number in range(member_settings.MAILS_PER_ORGANIZATION):
        assert ann.post("/settings/invitations", email=f"d{number}@example.org").status_code == 303
    assert ann.post("/settings/invitations", email="one@more.example").status_code == 429
    assert cid.post("/settings/invitations", email="one@more.example").status_code == 303
    assert "one@more.example" not in {
        i.email for i in management.list_invitations(caller(management, ann))
    }


def test_removing_a_member_ends_sessions_and_keys_at_once(ann, bob, app, control):
    _, raw = bob.make_key()
    bearer = {"authorization": f"Bearer {raw}"}
    script = TestClient(app, base_url=BASE_URL)
    assert bob.get("/settings/people").status_code == 200
    assert script.get("/api/api-keys", headers=bearer).status_code == 200
    page = ann.get(f"/settings/members/{bob.user_id}/remove").text
    assert "Remove bob@example.org from" in page
    answer = ann.post(f"/settings/members/{bob.user_id}/remove")
    assert answer.headers["location"] == "/settings/people?done=member-removed"
    assert bob.get("/settings/people").headers["location"].startswith("/sign-in")
    assert script.get("/api/api-keys", headers=bearer).status_code == 401
    assert "bob@example.org" not in ann.get("/settings/people").text
    assert actions(control, ann.organization_id)[0] == "member.remove"


def test_who_leaves_is_signed_out(ann, bob):
    assert "Leave ann@example.org Ltd?" in bob.get(f"/settings/members/{bob.user_id}/remove").text
    answer = bob.post(f"/settings/members/{bob.user_id}/remove")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert bob.get("/").headers["location"] == "/sign-in"


def test_the_only_owner_stays(ann, bob):
    page = ann.get("/settings/people").text
    assert "the only owner" in page
    assert f"/settings/members/{ann.user_id}/remove" not in page
    answer = ann.post(f"/settings/members/{ann.user_id}/remove")
    assert answer.status_code == 409
    assert "An organisation needs an owner" in answer.text


def test_who_is_no_owner_sees_the_members_and_may_change_nothing(ann, bob, management):
    page = bob.get("/settings/people").text
    assert "ann@example.org" in page
    for words in ("/settings/invitations", "What happened", f"{ann.user_id}/remove"):
        assert words not in page
    assert bob.post("/settings/invitations", email="dora@example.org").status_code == 403
    invitation = management.invite(caller(management, ann), "dora@example.org")
    assert "dora@example.org" not in bob.get("/settings/people").text
    for verb in ("send", "take-back"):
        assert bob.post(f"/settings/invitations/{invitation.id}/{verb}").status_code == 403
    assert bob.get(f"/settings/members/{ann.user_id}/remove").status_code == 403
    assert bob.post(f"/settings/members/{ann.user_id}/remove").status_code == 403
    key, _ = ann.make_key()
    assert bob.get(f"/settings/keys/{key.id}/delete").status_code == 404
    assert bob.post(f"/settings/keys/{key.id}/delete").status_code == 403
    assert len(management.list_members(caller(management, ann))) == 2
    assert len(management.list_invitations(caller(management, ann))) == 1
    assert len(management.list_keys(caller(management, ann)).items) == 1


def test_the_local_user_has_no_address_and_settings_like_everybody(app, control, management):
    user_id = control.find_user(None)
    session = SignIn(control).use_link(SignIn(control).make_link(user_id))
    assert session is not None
    browser = TestClient(app, base_url=BASE_URL, follow_redirects=False)
    browser.cookies.set(COOKIE, session.token)
    page = browser.get("/settings/people").text
    assert "local user" in page
    assert "None" not in page
    answer = browser.post("/settings/invitations", data={"email": "dora@example.org"}, headers=HERE)
    assert answer.status_code == 303
    (invitation,) = management.list_invitations_for("dora@example.org")
    assert "by local user" in browser.get("/settings/people").text
    for verb in ("join", "decline"):
        path = f"/invitations/{invitation.id}/{verb}"
        assert browser.post(path, headers=HERE).status_code == 404


@pytest.mark.parametrize("path", ["/settings", "/settings/endpoints/x", "/settings/keys/x/delete"])
def test_the_signed_out_come_back_after_signing_in(app, path):
    browser = TestClient(app, base_url=BASE_URL, follow_redirects=False)
    assert browser.get(path).headers["location"] == f"/sign-in?next={path}"


# -- organisations and sessions -------------------------------------------------------------------


def test_somebody_in_two_organisations_goes_from_one_to_the_other(ann, cid, management):
    invitation = management.invite(caller(management, cid), "ann@example.org")
    ann.post(f"/invitations/{invitation.id}/join")
    assert "cid@example.org" in ann.get("/settings/people").text
    answer = ann.post("/settings/organization", organization_id=ann.organization_id)
    assert answer.headers["location"] == "/settings/people?done=organization-switched"
    page = ann.get("/settings/people").text
    assert "cid@example.org</th>" not in page
    assert f'value="{cid.organization_id}"' in page, "the way back"


def test_nobody_goes_where_they_are_no_member(ann, cid):
    for id_ in (cid.organization_id, "", "x" * 500):
        assert ann.post("/settings/organization", organization_id=id_).status_code == 404
    assert "cid@example.org" not in ann.get("/settings/people").text


def test_sessions_are_counted(ann, control):
    assert "only in this browser" in ann.get("/settings/security").text
    SignIn(control).use_link(SignIn(control).make_link(ann.user_id))
    page = ann.get("/settings/security").text
    assert "in 2 browsers" in page
    assert 'action="/sign-out/everywhere"' in page


def test_owners_see_what_happened(ann, management):
    ann.post("/settings/endpoints", name="<b>team</b>", slug="team")
    page = ann.get("/settings/security").text.partition(">Activity<")[2]
    assert "created the endpoint team" in page
    assert "ann@example.org" in page


# -- two organisations ----------------------------------------------------------------------------


def test_nobody_touches_what_belongs_to_another_organisation(ann, cid, control, management):
    endpoint = create_endpoint(control, cid.organization_id, "Endpoint of Cid", "cids")
    key, _ = cid.make_key("Key of Cid")
    invitation = management.invite(caller(management, cid), "dora@example.org")
    for path, status in (
        (f"/settings/endpoints/{endpoint.id}", 404),
        ("/settings/endpoints/cids", 404),
        (f"/settings/endpoints/{endpoint.id}/delete", 404),
        (f"/settings/keys/{key.id}/delete", 404),
        (f"/settings/members/{cid.user_id}/remove", 404),
    ):
        assert ann.get(path).status_code == status, path
        assert ann.post(path, name="mine", streaming="live").status_code == status, path
    for verb in ("send", "take-back"):
        assert ann.post(f"/settings/invitations/{invitation.id}/{verb}").status_code == 404
    everything = "".join(ann.get(path).text for path in ("/", *PARTS))
    for word in ("Cid", "cids", "dora", cid.user_id, cid.organization_id):
        assert word not in everything
    assert management.get_endpoint(caller(management, cid), "cids") == endpoint
    assert management.list_keys(caller(management, cid)).items == [key]
    assert len(management.list_members(caller(management, cid))) == 1
    assert list(management.list_invitations(caller(management, cid))) == [invitation]
    assert actions(control, ann.organization_id) == []


def test_markup_in_names_is_shown_harmless(ann, app, control, management):
    evil = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>"
    with control.transaction() as db:
        db.execute("update organizations set name = ?", (evil,))
    endpoint = create_endpoint(control, ann.organization_id, evil)
    key, _ = ann.make_key(evil)
    created = ann.post("/settings/keys", name=evil)
    refused = ann.post("/settings/endpoints", name="x", slug=evil)
    pages = [
        created.text,
        refused.text,
        *(
            ann.get(path).text
            for path in (
                "/",
                *PARTS,
                f"/settings/endpoints/{endpoint.id}",
                f"/settings/endpoints/{endpoint.id}/delete",
                f"/settings/keys/{key.id}/delete",
                f"/settings/members/{ann.user_id}/remove",
            )
        ),
    ]
    for page in pages:
        assert "&lt;script&gt;alert(1)" in page
        assert "<script>" not in page
        assert "<img" not in page
        assert not re.search(r"<[^>]*\sstyle=", page)


# -- every form -----------------------------------------------------------------------------------


def post_routes(settings):
    return sorted(
        route.path.replace("{id}", "01a1fd49-2d8c-7368-8b14-00bb923ac775")
        for route in make_app(settings).routes
        if isinstance(route, Route)
        and "POST" in (route.methods or ())
        and route.path.startswith(("/settings", "/invitations"))
    )


def test_every_form_is_one_and_comes_from_somebody_signed_in(
    settings, stranger, control, ann, mailbox
):
    paths = post_routes(settings)
    assert len(paths) == 26
    fields = {"name": "x", "email": "x@example.org", "organization_id": ann.organization_id}
    for path in paths:
        json = ann.browser.post(path, json=fields, headers=HERE)
        assert json.status_code == 415, path
        signed_out = stranger.post(path, data=fields, headers=HERE)
        assert signed_out.status_code == 303, path
        assert signed_out.headers["location"].startswith("/sign-in"), path
    assert actions(control, ann.organization_id) == []
    assert not mailbox.mails


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("keys", "people"),
        ("invitations", "people"),
        ("members", "people"),
        ("organization", "people"),
        ("retention", "data"),
    ],
)
def test_the_address_of_a_form_can_be_opened(ann, path, part):
    assert ann.get(f"/settings/{path}").headers["location"] == f"/settings/{part}"
    assert ann.get("/settings/nothing").status_code == 404


def test_the_settings_begin_with_the_endpoints(ann):
    assert ann.get("/settings").headers["location"] == "/settings/endpoints"
    response = ann.get("/settings?done=organization-switched")
    assert response.headers["location"] == "/settings/endpoints?done=organization-switched"


@pytest.mark.parametrize("part", PARTS)
def test_the_parts_stand_beside_the_open_one(ann, bob, part):
    for person in (ann, bob):
        page = Page(person.get(part).text)
        links = [each for each in page.find("a") if each.is_within("nav")]
        side = [each for each in links if each.attributes["href"] in PARTS]
        assert [each.attributes["href"] for each in side] == list(PARTS)
        (here,) = [each for each in side if "aria-current" in each.attributes]
        assert (here.attributes["href"], here.attributes["aria-current"]) == (part, "page")


@pytest.mark.parametrize("path", FORMS)
def test_a_form_has_a_page_of_its_own(ann, bob, path):
    page = Page(ann.get(path).text)
    assert [each for each in page.find("form") if each.is_within("main")]
    allowed = path in ("/settings/new-endpoint", "/settings/people/new-key")
    assert bob.get(path).status_code == (200 if allowed else 403)


def test_the_list_of_endpoints_has_calls_and_cost_of_the_week(ann, control):
    endpoint = create_endpoint(control, ann.organization_id, "team")
    assert "$0.00" in ann.get("/settings/endpoints").text
    at = clock.format_ms(clock.now())
    ann.record({"proxy_endpoint_id": endpoint.id, "cost_cents": Decimal("12.4"), "created_at": at})
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", ann.get("/settings/endpoints").text))
    assert " 1 $0.12 full text live " in page


def test_every_notice_is_announced(ann, subtests):
    for code, notice in sorted(notices._NOTICES.items()):
        with subtests.test(code):
            page = ann.browser.get("/settings/endpoints", params={"done": code}).text
            assert f'role="status">{notice.text}<' in html.unescape(page)


def test_every_page_says_what_is_what_to_who_cannot_see_it(ann, control, management, record_of):
    endpoint = create_endpoint(control, ann.organization_id, "team")
    key, _ = ann.make_key()
    management.invite(caller(management, ann), "dora@example.org")
    record_of(ann)
    answers = [
        ann.post("/settings/keys", name="laptop"),
        ann.post("/settings/keys", name=""),
        ann.post("/settings/endpoints", name="x", slug="default"),
        ann.post("/settings/invitations", email="nobody"),
        *(
            ann.get(path)
            for path in (
                "/",
                *PARTS,
                f"/settings/endpoints/{endpoint.id}",
                f"/settings/endpoints/{endpoint.id}/delete",
                f"/settings/keys/{key.id}/delete",
                f"/settings/members/{ann.user_id}/remove",
            )
        ),
    ]
    for answer in answers:
        page = Page(answer.text)
        assert len(page.find("h1")) == 1
        assert not page.unnamed_controls()
        assert not page.doubled_ids()
        ids = {each.attributes["id"] for each in page.elements if "id" in each.attributes}
        for each in page.elements:
            assert "style" not in each.attributes
            assert not [name for name in each.attributes if name.startswith("on")]
            for name in ("aria-describedby", "aria-labelledby", "for"):
                assert set(each.attributes.get(name, "").split()) <= ids, each.attributes
            if each.tag in ("button", "a", "summary") and "hidden" not in each.attributes:
                assert each.text or each.attributes.get("aria-label"), each
