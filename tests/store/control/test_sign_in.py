from datetime import timedelta

import pytest

from runtime.errors import ConflictError, ForbiddenError, NotFoundError
from store.control import activity_log, api_keys
from store.control.sign_in import SignIn
from store.control.sign_in_links import Link


@pytest.fixture
def sign_in(control, now):
    return SignIn(control, now)


@pytest.fixture
def local_user(control):
    return control.find_user(None)


@pytest.fixture
def ann(sign_in):
    return sign_in.find_visitor(sign_in.sign_in("ann@example.org"))


# -- links -------------------------------------------------------------------------------------------


def test_a_link_works_once(sign_in, local_user):
    token = sign_in.make_link(local_user, "/settings")
    assert sign_in.find_link(token) == Link(email=None, organization_name=None)
    session = sign_in.use_link(token)
    assert session.next_path == "/settings"
    assert sign_in.find_visitor(session.token).user_id == local_user
    assert sign_in.find_link(token) is None
    assert sign_in.use_link(token) is None


def test_links_and_sessions_expire(sign_in, local_user, now):
    late = sign_in.make_link(local_user)
    now.at += timedelta(minutes=15, seconds=1)
    assert sign_in.find_link(late) is None
    assert sign_in.use_link(late) is None
    session = sign_in.use_link(sign_in.make_link(local_user)).token
    for _ in range(4):
        assert sign_in.find_visitor(session) is not None
        now.at += timedelta(days=6)
    now.at += timedelta(days=2)
    assert sign_in.find_visitor(session) is None, "idle for more than a week"


def test_a_session_ends_after_a_month_however_busy(sign_in, local_user, now):
    session = sign_in.use_link(sign_in.make_link(local_user)).token
    for _ in range(30):
        assert sign_in.find_visitor(session) is not None
        now.at += timedelta(days=1)
    now.at += timedelta(minutes=1)
    assert sign_in.find_visitor(session) is None


def test_no_token_is_stored(sign_in, local_user, tmp_path):
    token = sign_in.make_link(local_user)
    session = sign_in.use_link(token).token
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("control.db*"))
    assert token.encode() not in stored
    assert session.encode() not in stored


@pytest.mark.parametrize("token", ["", "x" * 5000, "\x00", "'--"])
def test_a_forged_link_is_none(sign_in, token):
    assert sign_in.find_link(token) is None
    assert sign_in.use_link(token) is None


# -- one person, one address -------------------------------------------------------------------------


def test_the_first_sign_in_makes_user_and_organisation(control, sign_in):
    visitor = sign_in.find_visitor(
        sign_in.use_link(sign_in.make_email_link("Ann@Example.org")).token
    )
    assert visitor.email == "ann@example.org"
    assert (visitor.role, visitor.organization_name) == ("owner", "ann@example.org")
    with control.reading() as db:
        assert [entry.action for entry in activity_log.read(db, visitor.organization_id)] == [
            "user.sign_in",
            "user.create",
        ]


def test_whichever_way_they_come_it_is_one_user(sign_in, users):
    created = users.create("ann@example.org")
    by_mail = sign_in.use_link(sign_in.make_email_link("ANN@example.org")).token
    by_provider = sign_in.sign_in("Ann@Example.Org")
    for session in (by_mail, by_provider):
        visitor = sign_in.find_visitor(session)
        assert (visitor.user_id, visitor.organization_id) == (created.id, created.organization_id)
    assert [m.email for m in users.list()].count("ann@example.org") == 1


def test_an_address_longer_than_a_name_signs_up(sign_in):
    email = f"{'a' * 64}@{'b' * 60}.{'c' * 60}.{'d' * 60}.org"
    assert sign_in.find_visitor(sign_in.sign_in(email)).email == email


def test_signing_out_everywhere_ends_every_session_of_this_user_alone(sign_in, ann):
    sessions = [sign_in.sign_in("ann@example.org") for _ in range(3)]
    other = sign_in.sign_in("bob@example.org")
    assert sign_in.count_sessions(ann.user_id) == 4
    assert sign_in.sign_out_everywhere(ann.user_id) == 4
    assert all(sign_in.find_visitor(session) is None for session in sessions)
    assert sign_in.find_visitor(other) is not None


# -- invitations -------------------------------------------------------------------------------------


def test_who_follows_an_invitation_joins_that_organisation_alone(sign_in, management, ann):
    invitation = management.invite(ann, "bob@example.org")
    token = sign_in.make_invitation_link(invitation)
    assert sign_in.find_link(token) == Link(
        email="bob@example.org", organization_name="ann@example.org"
    )
    bob = sign_in.find_visitor(sign_in.use_link(token).token)
    assert (bob.organization_id, bob.role) == (ann.organization_id, "member")
    assert [o.id for o in management.list_organizations(bob)] == [ann.organization_id]
    assert [m.email for m in management.list_members(ann)] == ["ann@example.org", "bob@example.org"]
    assert management.list_invitations(ann) == []
    assert sign_in.use_link(token) is None


def test_who_has_an_organisation_accepts_on_a_page_and_switches(sign_in, management, ann):
    session = sign_in.sign_in("bob@example.org")
    bob = sign_in.find_visitor(session)
    invitation = management.invite(ann, "Bob@example.org")
    assert management.list_invitations_for(bob.email) == [invitation]
    sign_in.accept_invitation(session, invitation.id)
    assert sign_in.find_visitor(session).organization_id == ann.organization_id
    assert sign_in.find_visitor(session).role == "member"
    sign_in.switch_organization(session, bob.organization_id)
    assert sign_in.find_visitor(session) == bob
    with pytest.raises(NotFoundError):
        sign_in.switch_organization(session, "another")


def test_an_invitation_is_for_one_address(sign_in, management, ann):
    invitation = management.invite(ann, "bob@example.org")
    session = sign_in.sign_in("cid@example.org")
    with pytest.raises(NotFoundError):
        sign_in.accept_invitation(session, invitation.id)
    with pytest.raises(NotFoundError):
        management.decline_invitation("cid@example.org", invitation.id)
    assert management.list_invitations_for("cid@example.org") == []


def test_an_invitation_ends_with_its_week_or_when_taken_back(sign_in, management, ann, now):
    invitation = management.invite(ann, "bob@example.org")
    token = sign_in.make_invitation_link(invitation)
    now.at += timedelta(days=6)
    assert sign_in.find_link(token) is not None
    management.take_back_invitation(ann, invitation.id)
    assert sign_in.find_link(token) is None
    assert sign_in.use_link(token) is None
    late = management.invite(ann, "bob@example.org")
    token = sign_in.make_invitation_link(late)
    now.at += timedelta(days=7, seconds=1)
    assert sign_in.use_link(token) is None
    assert management.list_invitations(ann) == []
    assert management.list_invitations_for("bob@example.org") == []


def test_inviting_twice_renews(management, ann, now):
    first = management.invite(ann, "bob@example.org")
    now.at += timedelta(days=3)
    second = management.invite(ann, "bob@example.org")
    assert second.id == first.id
    assert second.expires_at > first.expires_at
    assert management.list_invitations(ann) == [second]


def test_who_is_invited_can_decline(control, sign_in, management, ann):
    invitation = management.invite(ann, "bob@example.org")
    token = sign_in.make_invitation_link(invitation)
    bob = sign_in.find_visitor(sign_in.sign_in("bob@example.org"))
    management.decline_invitation("bob@example.org", invitation.id)
    assert sign_in.use_link(token) is None
    with control.reading() as db:
        entry = activity_log.read(db, ann.organization_id)[0]
    assert (entry.action, entry.user_id) == ("invitation.decline", bob.user_id)


def test_only_owners_invite_and_remove(sign_in, management, ann):
    token = sign_in.make_invitation_link(management.invite(ann, "bob@example.org"))
    bob = sign_in.find_visitor(sign_in.use_link(token).token)
    with pytest.raises(ForbiddenError):
        management.invite(bob, "cid@example.org")
    with pytest.raises(ForbiddenError):
        management.remove_member(bob, ann.user_id)
    with pytest.raises(ForbiddenError):
        management.take_back_invitation(bob, "any")
    with pytest.raises(ConflictError):
        management.invite(ann, "bob@example.org")
    with pytest.raises(ConflictError):
        management.remove_member(ann, ann.user_id)
    management.remove_member(bob, bob.user_id)
    assert [m.email for m in management.list_members(ann)] == ["ann@example.org"]


def test_a_member_of_another_organisation_cannot_be_removed(sign_in, management, ann):
    cid = sign_in.find_visitor(sign_in.sign_in("cid@example.org"))
    with pytest.raises(NotFoundError):
        management.remove_member(ann, cid.user_id)


def test_who_is_removed_loses_sessions_and_keys_at_once(control, sign_in, management, ann):
    token = sign_in.make_invitation_link(management.invite(ann, "bob@example.org"))
    session = sign_in.use_link(token).token
    bob = sign_in.find_visitor(session)
    _, raw_key = management.create_key(bob, "laptop")
    assert management.authenticate(raw_key) is not None
    management.remove_member(ann, bob.user_id)
    assert sign_in.find_visitor(session) is None
    assert management.authenticate(raw_key) is None
    with control.reading() as db:
        assert api_keys.find_holder(db, raw_key) is None
        assert activity_log.read(db, ann.organization_id)[0].action == "member.remove"
    again = sign_in.find_visitor(sign_in.sign_in("bob@example.org"))
    assert again.user_id == bob.user_id
    assert again.organization_id != ann.organization_id, "they start anew, in their own"


@pytest.mark.parametrize(
    "late",
    [
        lambda management, bob: management.create_key(bob, "late"),
        lambda management, bob: management.create_endpoint(bob, "late"),
        lambda management, bob: management.update_endpoint(bob, "default", name="late"),
        lambda management, bob: management.delete_endpoint(bob, "default"),
        lambda management, bob: management.remove_member(bob, bob.user_id),
    ],
)
def test_who_is_removed_while_a_request_of_theirs_waits_changes_nothing(
    sign_in, management, ann, late
):
    management.create_endpoint(ann, "default")
    token = sign_in.make_invitation_link(management.invite(ann, "bob@example.org"))
    bob = sign_in.find_visitor(sign_in.use_link(token).token)
    management.remove_member(ann, bob.user_id)
    before = management.list_endpoints(ann)
    with pytest.raises(ForbiddenError):
        late(management, bob)
    assert management.list_endpoints(ann) == before
    assert management.list_keys(bob).items == []


def test_who_is_removed_has_no_invitation_left(control, sign_in, management, ann, users):
    invitation = management.invite(ann, "bob@example.org")
    organization_id = ann.organization_id
    bob = users.create("bob@example.org", join=organization_id)
    management.remove_member(ann, bob.id)
    assert management.list_invitations(ann) == []
    with pytest.raises(NotFoundError):
        sign_in.accept_invitation(sign_in.sign_in("bob@example.org"), invitation.id)


def test_whom_a_removed_member_has_invited_is_invited_no_more(control, management, ann, users):
    bob = users.create("bob@example.org", join=ann.organization_id)
    with control.transaction() as db:
        db.execute("update memberships set role = 'owner' where user_id = ?", (bob.id,))
    management.invite(management.find_caller("bob@example.org"), "friend@example.org")
    mine = management.invite(ann, "cid@example.org")
    management.remove_member(ann, bob.id)
    assert [each.id for each in management.list_invitations(ann)] == [mine.id]


def test_who_is_removed_from_one_organisation_keeps_the_other(sign_in, management, ann):
    session = sign_in.sign_in("bob@example.org")
    bob = sign_in.find_visitor(session)
    _, raw_key = management.create_key(bob, "laptop")
    sign_in.accept_invitation(session, management.invite(ann, "bob@example.org").id)
    management.remove_member(ann, bob.user_id)
    assert management.authenticate(raw_key) is not None
    assert sign_in.find_visitor(sign_in.sign_in("bob@example.org")) == bob


def test_there_are_not_more_invitations_than_anybody_needs(management, ann):
    for number in range(100):
        management.invite(ann, f"b{number}@example.org")
    with pytest.raises(ConflictError):
        management.invite(ann, "one.more@example.org")
    management.invite(ann, "b7@example.org")


def test_the_local_user_is_invited_to_nothing(management):
    assert management.list_invitations_for(None) == ()
