"""The rule for accounts that are made by signing in, and the log of those who signed in."""

import os
import pwd

import pytest

from runtime.errors import SignUpRefusedError
from runtime.sign_up_rule import INVITED, OPEN, SignUpRule, parse_sign_up
from store.control import activity_log
from store.control.sign_in import Origin, SignIn

ANN, BOB = "ann@example.org", "bob@elsewhere.example"


@pytest.fixture
def invited_only(control, now):
    return SignIn(control, now, INVITED)


def log_of(control, organization_id):
    with control.reading() as db:
        return activity_log.read(db, organization_id)


# -- the rule ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("open", OPEN),
        ("invited", INVITED),
        ("example.org", SignUpRule(frozenset({"example.org"}))),
        ("@Example.org, b.example", SignUpRule(frozenset({"example.org", "b.example"}))),
        ("xn--bcher-kva.example", SignUpRule(frozenset({"bücher.example"}))),
    ],
)
def test_the_setting_says_who(text, rule):
    assert parse_sign_up(text) == rule


@pytest.mark.parametrize(
    "text", ["", "closed", "open,example.org", "example.org,,b.example", "a@b"]
)
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="open, invited, or e-mail domains"):
        parse_sign_up(text)


@pytest.mark.parametrize(
    ("email", "allowed"),
    [
        ("ann@example.org", True),
        ("ann@sub.example.org", False),
        ("ann@example.org.evil.example", False),
        ("ann@notexample.org", False),
    ],
)
def test_a_domain_is_exactly_that_one(email, allowed):
    assert parse_sign_up("example.org").allows(email) is allowed


# -- signing up --------------------------------------------------------------------------------------


def test_who_may_not_sign_up_gets_no_link_no_session_and_no_account(control, invited_only):
    with pytest.raises(SignUpRefusedError):
        invited_only.make_email_link(ANN)
    with pytest.raises(SignUpRefusedError):
        invited_only.sign_in(ANN)
    assert control.find_user(ANN) is None


def test_a_link_that_was_made_before_the_rule_makes_no_account(control, now, invited_only):
    token = SignIn(control, now).make_email_link(ANN)
    with pytest.raises(SignUpRefusedError):
        invited_only.use_link(token)
    assert control.find_user(ANN) is None


def test_a_user_whom_the_operator_made_signs_in(invited_only, users):
    users.create(ANN)
    assert invited_only.use_link(invited_only.make_email_link(ANN)) is not None
    assert invited_only.find_visitor(invited_only.sign_in(ANN)).email == ANN


@pytest.mark.parametrize("way", ["link", "mail", "provider"])
def test_an_invitation_lets_in_whichever_way_they_come(invited_only, management, way, users):
    users.create(ANN)
    invitation = management.invite(management.find_caller(ANN), BOB)
    session = {
        "link": lambda: invited_only.use_link(invited_only.make_invitation_link(invitation)).token,
        "mail": lambda: invited_only.use_link(invited_only.make_email_link(BOB)).token,
        "provider": lambda: invited_only.sign_in(BOB),
    }[way]()
    assert invited_only.find_visitor(session).email == BOB


def test_who_was_removed_from_everywhere_makes_no_new_organisation(
    control, now, invited_only, management, users
):
    users.create(ANN)
    ann = management.find_caller(ANN)
    token = invited_only.make_invitation_link(management.invite(ann, BOB))
    bob = invited_only.find_visitor(invited_only.use_link(token).token)
    management.remove_member(ann, bob.user_id)
    with pytest.raises(SignUpRefusedError):
        invited_only.sign_in(BOB)
    assert SignIn(control, now).sign_in(BOB)


def test_no_link_of_a_deleted_user_makes_a_new_account(control, now, management, users):
    sign_in = SignIn(control, now)
    before = sign_in.make_email_link(BOB)  # before there was a user of that address
    users.create(ANN)
    users.create(BOB)
    invited = sign_in.make_invitation_link(management.invite(management.find_caller(ANN), BOB))
    later = sign_in.make_email_link(BOB)
    users.delete(BOB)
    for token in (before, invited, later):
        assert sign_in.find_link(token) is None
        assert sign_in.use_link(token) is None
    assert control.find_user(BOB) is None
    assert management.list_invitations_for(BOB) == []


# -- the log -----------------------------------------------------------------------------------------


def test_a_sign_in_is_logged_with_the_way_and_the_address_and_no_token(control, now, users):
    sign_in = SignIn(control, now)
    organization_id = users.create(ANN).organization_id
    token = sign_in.make_email_link(ANN)
    session = sign_in.use_link(token, "192.0.2.7")
    assert session is not None
    sign_in.sign_in(ANN, Origin(method="github", client="2001:db8::1"))
    github, mail, _created = log_of(control, organization_id)
    assert {entry.action for entry in (github, mail)} == {"user.sign_in"}
    assert {entry.email for entry in (github, mail)} == {ANN}
    assert mail.details == {"by": "mail", "client": "192.0.2.7"}
    assert github.details == {"by": "github", "client": "2001:db8::1"}
    assert not any(secret in str(mail) for secret in (token, session.token))


def test_every_organisation_that_a_session_opens_is_told(control, now, management, users):
    sign_in = SignIn(control, now)
    ann, bob = users.create(ANN), users.create(BOB)
    invitation = management.invite(management.find_caller(ANN), BOB)
    sign_in.use_link(sign_in.make_invitation_link(invitation))
    for organization_id in (ann.organization_id, bob.organization_id):
        entry = log_of(control, organization_id)[0]
        assert (entry.action, entry.email, entry.details["by"]) == (
            "user.sign_in",
            BOB,
            "invitation",
        )


def test_a_link_that_the_operator_makes_is_logged_as_the_operator_s(control, now, users):
    sign_in = SignIn(control, now)
    organization_id = users.create(ANN).organization_id
    sign_in.use_link(sign_in.make_link(control.find_user(ANN)), "127.0.0.1")
    used, made, _created = log_of(control, organization_id)
    account = pwd.getpwuid(os.getuid()).pw_name
    assert (made.action, made.user_id) == ("user.link", None)
    assert made.details == {"email": ANN, "operator": account}
    assert (used.action, used.details["by"]) == ("user.sign_in", "link")


def test_what_the_operator_does_for_somebody_is_not_logged_as_theirs(control, management, users):
    member = users.create(ANN)
    caller = management.find_caller(ANN, is_operator=True)
    key, _ = management.create_key(caller, "laptop")
    entry = log_of(control, member.organization_id)[0]
    assert (entry.action, entry.user_id, entry.subject_id) == ("key.create", None, key.id)
    assert entry.details["for"] == ANN
    management.create_key(management.find_caller(ANN), "own")
    own = log_of(control, member.organization_id)[0]
    assert own.user_id == member.id
    assert "for" not in own.details
