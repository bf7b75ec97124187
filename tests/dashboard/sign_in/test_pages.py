"""Signing in by mail, with real mail; sessions, and who may end them."""

import logging
import re
from datetime import timedelta
from urllib.parse import quote, urlencode

import pytest

from dashboard.mail.texts import invitation_mail
from dashboard.sign_in.pages import MAIL_WINDOW_S
from manage.client_address import CLIENT_HEADER
from runtime.clock import now
from runtime.settings import CLIENT_MARK_VARIABLE, MailLimits
from store.control import invitations
from store.control.sign_in import SignIn
from tests.dashboard.people import COOKIE
from tests.dashboard.signing_in import BASE_URL, PAGE, run_site
from tests.mailbox import Mailbox, link_in, text_of

pytestmark = pytest.mark.served

ANN, BOB = "ann@example.org", "bob@example.org"
MAILS_PER_CLIENT, MAILS_PER_MAILBOX = MailLimits().client, MailLimits().mailbox
MARK = "the-mark-of-the-front-door"


@pytest.fixture(scope="module")
def running_mailbox():
    with Mailbox() as mailbox:
        yield mailbox


@pytest.fixture
def mailbox(running_mailbox):
    running_mailbox.deliveries.clear()
    return running_mailbox


def mail_settings(mailbox):
    return {
        "smtp_url": f"smtp://127.0.0.1:{mailbox.port}",
        "mail_from": "Taximeter <meter@example.org>",
    }


@pytest.fixture
def site(tmp_path, mailbox, monkeypatch):
    monkeypatch.setenv(CLIENT_MARK_VARIABLE, MARK)
    with run_site(tmp_path, **mail_settings(mailbox)) as site:
        yield site


def ask(site, email=ANN, client="192.0.2.1", **fields):
    header = {CLIENT_HEADER.decode(): f"{MARK} {client}"}
    return site.post("/sign-in", {"email": email} | fields, **header)


def words(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.text))


def test_the_form_says_what_it_wants_and_keeps_where_somebody_goes(site):
    page = site.client.get("/sign-in?next=/traces/usage_log%3Fa%3D1%26b").text
    assert '<label for="email">E-mail address</label>' in page
    assert 'autocomplete="email"' in page
    assert 'name="next" value="/traces/usage_log?a=1&amp;b"' in page


def test_a_link_comes_by_mail_and_signs_in(site, mailbox):
    answer = ask(site, " Ann@Example.ORG ", next="/traces?_size=2")
    assert answer.status_code == 200
    assert "Check your mail" in answer.text
    message = mailbox.wait_for(ANN)
    assert message["subject"] == "Sign in to Taximeter"
    assert "15 minutes" in text_of(message)
    assert "ignore this mail" in text_of(message)
    link = link_in(message)
    assert link.startswith(f"{BASE_URL}/sign-in/link?token=")
    assert ANN in site.client.get(link.removeprefix(BASE_URL)).text
    answer = site.open_link(link)
    assert (answer.status_code, answer.headers["location"]) == (303, "/traces?_size=2")
    assert site.is_signed_in()
    assert ANN in site.user_ids()


def test_whoever_is_signed_in_is_not_asked_to_again(site, mailbox):
    ask(site)
    site.open_link(link_in(mailbox.wait_for(ANN)))
    answer = site.client.get("/sign-in?next=/traces")
    assert (answer.status_code, answer.headers["location"]) == (303, "/traces")


def test_the_answer_is_the_same_for_an_address_that_is_known(site, mailbox):
    SignIn(site.control).sign_in(ANN)
    known, unknown = ask(site, ANN), ask(site, BOB)
    assert known.status_code == unknown.status_code == 200
    assert known.text.replace(ANN, "") == unknown.text.replace(BOB, "")
    assert known.headers.keys() == unknown.headers.keys()
    first, second = mailbox.wait_for(ANN), mailbox.wait_for(BOB)
    assert first["subject"] == second["subject"]


async def test_the_answer_is_on_its_way_before_there_is_any_mail(site, mailbox):
    """The mail is sent by Starlette's background task, which runs after the answer."""
    sent = []

    async def send(message):
        sent.append((message["type"], len(mailbox.deliveries)))

    body = urlencode({"email": ANN}).encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/sign-in",
        "raw_path": b"/sign-in",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "client": None,
        "server": ("meter.example", 8080),
        "headers": [(b"host", b"meter.example:8080"), (b"origin", BASE_URL.encode())],
    }
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive():
        return next(parts)

    await site.client.app(scope, receive, send)
    assert sent[-1] == ("http.response.body", 0)
    assert mailbox.wait_for(ANN)


def test_a_mailbox_gets_only_so_many_and_nobody_is_told(site, mailbox):
    first = ask(site)
    for number in range(MAILS_PER_MAILBOX + 3):
        answer = ask(site, ANN.upper(), client=f"192.0.2.{number + 2}")
        assert (answer.status_code, answer.text) == (200, first.text)
    assert len(mailbox.to(ANN)) == MAILS_PER_MAILBOX
    ask(site, BOB)
    assert mailbox.wait_for(BOB)


def test_a_client_gets_only_so_many_and_is_told_when_to_come_back(site, mailbox):
    for number in range(MAILS_PER_CLIENT):
        assert ask(site, f"u{number}@example.org").status_code == 200
    answer = ask(site, "more@example.org")
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= MAIL_WINDOW_S
    assert "15 minutes" in answer.text
    assert not mailbox.to("more@example.org")
    assert ask(site, "more@example.org", client="192.0.2.77").status_code == 200


def test_all_of_a_customers_network_is_one_client(site):
    for number in range(MAILS_PER_CLIENT):
        ask(site, f"u{number}@example.org", client=f"2001:db8:0:1::{number:x}")
    assert ask(site, ANN, client="2001:db8:0:1:ffff::1").status_code == 429
    assert ask(site, ANN, client="2001:db8:0:2::1").status_code == 200


def test_a_site_with_a_48_gets_only_so_many(tmp_path, mailbox, monkeypatch):
    monkeypatch.setenv(CLIENT_MARK_VARIABLE, MARK)
    with run_site(tmp_path, sign_in_mails="network=3", **mail_settings(mailbox)) as site:
        for number in range(3):
            answer = ask(site, f"u{number}@example.org", client=f"2001:db8:0:{number}::1")
            assert answer.status_code == 200
        assert ask(site, ANN, client="2001:db8:0:9::1").status_code == 429
        assert ask(site, ANN, client="2001:db8:1::1").status_code == 200
        assert ask(site, BOB, client="192.0.2.9").status_code == 200


def test_only_so_many_mails_are_sent_in_total_and_the_log_says_so(
    tmp_path, mailbox, monkeypatch, caplog
):
    monkeypatch.setenv(CLIENT_MARK_VARIABLE, MARK)
    with run_site(tmp_path, sign_in_mails="total=2", **mail_settings(mailbox)) as site:
        pages = [
            ask(site, f"u{number}@example.org", client=f"192.0.2.{number}") for number in range(3)
        ]
    assert {page.status_code for page in pages} == {200}
    assert [len(mailbox.to(f"u{number}@example.org")) for number in range(3)] == [1, 1, 0]
    assert "TAXIMETER_SIGN_IN_MAILS" in caplog.text


def test_who_may_not_sign_up_is_answered_like_who_has_an_account(tmp_path, mailbox):
    with run_site(tmp_path, sign_up="invited", **mail_settings(mailbox)) as site:
        SignIn(site.control).sign_in(ANN)
        known, unknown = ask(site, ANN), ask(site, BOB)
        assert known.status_code == unknown.status_code == 200
        assert known.text.replace(ANN, "") == unknown.text.replace(BOB, "")
        assert "If this address may sign in here" in known.text
        assert known.headers.keys() == unknown.headers.keys()
        assert mailbox.wait_for(ANN)
        assert not mailbox.to(BOB)
        assert BOB not in site.user_ids()


def test_mails_that_are_not_sent_do_not_use_up_the_total(tmp_path, mailbox):
    settings = mail_settings(mailbox) | {"sign_up": "example.org", "sign_in_mails": "total=1"}
    with run_site(tmp_path, **settings) as site:
        for number in range(3):
            ask(site, f"u{number}@elsewhere.example")
        ask(site, ANN)
    assert mailbox.wait_for(ANN)


def test_a_link_of_before_the_rule_is_answered_with_a_page_that_says_why(tmp_path, mailbox):
    with run_site(tmp_path, sign_up="example.com", **mail_settings(mailbox)) as site:
        token = SignIn(site.control).make_email_link(ANN)
        answer = site.open_link(f"{BASE_URL}/sign-in/link?token={token}")
        assert answer.status_code == 403
        assert "invitation" in words(answer)
        assert not site.is_signed_in()
        assert "for addresses of example.com" in site.client.get("/sign-in").text


def test_the_log_has_the_address_that_the_front_door_saw(site, mailbox):
    ask(site)
    header = {CLIENT_HEADER.decode(): f"{MARK} 198.51.100.7"}
    site.open_link(link_in(mailbox.wait_for(ANN)), **header)
    with site.control.reading() as db:
        details = db.execute(
            "select details from audit_log where action = 'user.sign_in'"
        ).fetchall()
    assert details == [('{"by": "mail", "client": "198.51.100.7"}',)]


def test_a_client_cannot_say_that_it_is_another(site):
    for number in range(MAILS_PER_CLIENT):
        site.post(
            "/sign-in", {"email": f"u{number}@example.org"}, **{"x-forwarded-for": f"{number}"}
        )
    header = {CLIENT_HEADER.decode(): "forged 192.0.2.9", "x-forwarded-for": "192.0.2.9"}
    assert site.post("/sign-in", {"email": ANN}, **header).status_code == 429


@pytest.mark.parametrize(
    "email",
    [
        "",
        "ann@example.org\r\nBcc: bob@example.org",
        '"><script>@example.org',
    ],
)
def test_an_address_that_is_none_is_said_on_the_page(site, mailbox, email):
    answer = ask(site, email, next="/traces")
    assert answer.status_code == 400
    assert "This is not a valid e-mail address" in answer.text
    assert 'value="/traces"' in answer.text
    assert "<script>" not in answer.text
    assert not mailbox.deliveries


@pytest.mark.parametrize(
    "next_path",
    [
        "https://evil.example/",
        "/\\evil.example",
    ],
)
def test_nobody_is_sent_elsewhere(site, mailbox, next_path):
    page = site.client.get(f"/sign-in?next={quote(next_path, safe='')}")
    assert 'name="next" value="/"' in page.text
    ask(site, next=next_path)
    answer = site.open_link(link_in(mailbox.wait_for(ANN)))
    assert answer.headers["location"] == "/"


def test_programs_that_open_links_use_nothing_up(site, mailbox):
    ask(site)
    path = link_in(mailbox.wait_for(ANN)).removeprefix(BASE_URL)
    for _ in range(3):
        assert site.client.get(path).status_code == 200
        assert site.client.head(path).status_code == 200
    assert "set-cookie" not in site.client.get(path).headers
    assert ANN not in site.user_ids(), "nobody has signed in"
    assert site.open_link(path).status_code == 303


def test_the_page_of_a_link_tells_nobody_its_address(site, mailbox):
    ask(site)
    headers = site.client.get(link_in(mailbox.wait_for(ANN)).removeprefix(BASE_URL)).headers
    assert headers["referrer-policy"] == "strict-origin"
    assert headers["x-robots-tag"] == "noindex"
    assert headers["cache-control"] == "no-store"


def refused(site, answer):
    assert answer.status_code == 410
    assert "already used or has expired" in answer.text
    assert "set-cookie" not in answer.headers
    assert not site.is_signed_in()


def test_a_used_link_is_refused(site, mailbox):
    ask(site)
    link = link_in(mailbox.wait_for(ANN))
    site.open_link(link)
    site.client.cookies.clear()
    refused(site, site.client.get(link.removeprefix(BASE_URL)))
    refused(site, site.post("/sign-in/link", {"token": link.rpartition("=")[2]}))


def test_an_old_link_is_refused(site):
    token = SignIn(site.control, lambda: now() - timedelta(minutes=16)).make_email_link(ANN)
    refused(site, site.client.get(f"/sign-in/link?token={token}"))
    refused(site, site.post("/sign-in/link", {"token": token}))


def test_a_link_of_another_service_is_refused(site, tmp_path):
    with run_site(tmp_path / "other") as other:
        token = SignIn(other.control).make_email_link(ANN)
    refused(site, site.post("/sign-in/link", {"token": token}))


def cookie_for(site, session):
    site.client.cookies.clear()
    return {"cookie": f"{COOKIE}={session}", "accept": PAGE}


@pytest.mark.parametrize("session", ["", "forged", "A" * 43, "x" * 4000, '"; drop'])
def test_a_forged_session_is_none(site, session):
    assert site.client.get("/", headers=cookie_for(site, session)).status_code == 303


def test_a_session_of_another_service_is_none(site, tmp_path):
    with run_site(tmp_path / "other") as other:
        session = SignIn(other.control).sign_in(ANN)
    assert site.client.get("/", headers=cookie_for(site, session)).status_code == 303


@pytest.mark.parametrize("age", [timedelta(days=8), timedelta(days=31)])
def test_an_old_session_is_none(site, age):
    session = SignIn(site.control, lambda: now() - age).sign_in(ANN)
    assert site.client.get("/", headers=cookie_for(site, session)).status_code == 303


def test_a_link_ends_the_session_before_it(site):
    old = SignIn(site.control).sign_in(BOB)
    site.client.cookies[COOKIE] = old
    site.open_link(f"{BASE_URL}/sign-in/link?token={SignIn(site.control).make_email_link(ANN)}")
    assert SignIn(site.control).find_visitor(old) is None


def test_a_link_that_is_not_good_leaves_the_session_alone(site):
    session = SignIn(site.control).sign_in(BOB)
    site.client.cookies[COOKIE] = session
    site.post("/sign-in/link", {"token": "forged"})
    assert site.is_signed_in()


def test_signing_out_ends_one_session_and_everywhere_all(site):
    here, there, other = (SignIn(site.control).sign_in(email) for email in (ANN, ANN, BOB))

    def visitors():
        return [SignIn(site.control).find_visitor(session) for session in (here, there, other)]

    header = cookie_for(site, here)
    assert site.post("/sign-out", **header).headers["location"] == "/sign-in"
    assert [bool(visitor) for visitor in visitors()] == [False, True, True]
    answer = site.post("/sign-out/everywhere", **cookie_for(site, there))
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert [bool(visitor) for visitor in visitors()] == [False, False, True]


def invite(site, email, name="Local"):
    organization = site.control.get_local_organization()
    with site.control.transaction() as db:
        db.execute("update organizations set name = ? where id = ?", (name, organization.id))
        return invitations.create(db, organization.id, email, "eve@example.org", now())


def test_an_invitation_says_who_invites_and_into_what(site):
    invitation = invite(site, ANN, "Träume & <b>Co</b>")
    link = f"{BASE_URL}/sign-in/link?token={SignIn(site.control).make_invitation_link(invitation)}"
    subject, text = invitation_mail(invitation, link)
    assert subject == "Join Träume & <b>Co</b> on Taximeter"
    assert "eve@example.org invites you to join Träume & <b>Co</b>" in text
    assert f"\n{link}\n" in text
    page = site.client.get(link.removeprefix(BASE_URL)).text
    assert "Join Träume &amp; &lt;b&gt;Co&lt;/b&gt;" in page
    assert ANN in page
    assert site.open_link(link).status_code == 303
    assert site.is_signed_in()


def test_a_mail_that_cannot_be_sent_is_logged_without_its_link(tmp_path, caplog):
    with Mailbox(broken=True) as mailbox, run_site(tmp_path, **mail_settings(mailbox)) as site:
        assert ask(site).status_code == 200
    assert "was not sent: smtp://127.0.0.1" in caplog.text
    assert "token" not in caplog.text


def test_for_people_at_this_machine_the_link_is_on_the_terminal(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    base_url = "http://127.0.0.1:8080"
    with run_site(tmp_path, base_url=base_url) as site:
        assert "printed in the terminal" in site.client.get("/sign-in").text
        assert "Check the terminal" in ask(site).text
        link = next(line for line in "\n".join(site.printed).splitlines() if "/link?" in line)
        assert link not in caplog.text
        assert site.open_link(link).status_code == 303
        assert site.is_signed_in()


def test_elsewhere_there_is_no_form_without_a_mail_server(tmp_path):
    with run_site(tmp_path) as site:
        page = site.client.get("/sign-in").text
        assert "<form" not in page
        assert "taximeter users link" in page
        answer = ask(site)
        assert answer.status_code == 400
        assert "sends no mail" in answer.text
        assert site.printed == []
