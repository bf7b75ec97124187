import pytest

from runtime.email_addresses import parse_email
from runtime.errors import ConflictError, InvalidInputError, NotFoundError
from store.control import api_keys, people
from store.control.sign_in import SignIn


def test_an_address_is_one_user_however_it_is_typed(db):
    user_id = people.create_user(db, " Ann@Example.ORG ")
    assert people.find_user(db, "ann@example.org") == user_id
    assert people.find_user(db, "ANN@example.org") == user_id
    with pytest.raises(ConflictError):
        people.create_user(db, "aNN@example.org")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ann",
        "@",
        "a@",
        "@b",
        "a b@c",
        "a@b@c",
        "'a'@b.c",
        "a@b\nbcc: c",
        "a\x00@b",
        "<a@b>",
        "a,b@c",
        "a" * 251 + "@b.c",
        "mi\u212ae@example.org",  # the Kelvin sign, in lower case a k
        "ann@\u212ain.example",
        "\uff41nn@example.org",
        "ann\uff20example.org",
        "ann@stra\u00dfe.example",  # its mail would go to strasse.example
        "ann@example\u3002org",
        "ann@example.org.",
        "ann@example..org",
        "=?utf-8?q?a=2cb=40evil.example?=@example.org",
        "ann@" + "\u00fc" * 64 + ".example",
    ],
)
def test_what_is_no_address_is_refused(db, text):
    with pytest.raises(InvalidInputError) as raised:
        people.create_user(db, text)
    assert raised.value.field == "email"


@pytest.mark.parametrize(
    "text", ["a@b.c", "a+b@c.d", "o'neil-d'arc@c.d", "ann.o@sub.example.org", "jürgen@müller.de"]
)
def test_what_is_an_address_is_taken(text):
    assert parse_email(text) == text


def test_a_domain_is_the_same_however_it_is_written(db):
    user_id = people.create_user(db, "ann@xn--Bcher-kva.example")
    assert people.find_user(db, "ann@bücher.example") == user_id
    assert people.find_user(db, "ANN@XN--BCHER-KVA.example") == user_id
    assert people.find_user(db, "ann@bu\u0308cher.example") is None


@pytest.mark.parametrize("domain", ["xn--strae-oqa.example", "xn--.example"])
def test_a_domain_that_we_cannot_read_stays_as_it_is_written(domain):
    assert parse_email(f"ann@{domain}") == f"ann@{domain}"


def test_an_organisation_is_found_by_id_and_by_its_only_name(db):
    ours = people.create_organization(db, "Ours")
    assert people.get_organization(db, ours.id) == ours
    assert people.get_organization(db, "Ours") == ours
    with pytest.raises(NotFoundError):
        people.get_organization(db, "Theirs")


def test_a_name_that_two_have_names_neither(db):
    first = people.create_organization(db, "Twin")
    people.create_organization(db, "Twin")
    with pytest.raises(ConflictError, match="by its id"):
        people.get_organization(db, "Twin")
    people.create_organization(db, first.id)
    assert people.get_organization(db, first.id) == first


def test_a_member_joined_when_they_joined_and_not_when_they_signed_up(db):
    organization = people.create_organization(db, "Ltd")
    user_id = people.create_user(db, "ann@example.org")
    people.join(db, organization.id, user_id, "member")
    db.execute("update memberships set created_at = '2026-05-06T07:08:09.000Z'")
    (member,) = people.list_members_of(db, organization.id)
    assert member.joined_at == "2026-05-06T07:08:09.000Z"
    assert member.created_at != member.joined_at


def test_who_is_deleted_leaves_no_way_in(control):
    with control.transaction() as db:
        ours = people.create_organization(db, "Ours")
        ann = people.create_user(db, "ann@example.org")
        people.join(db, ours.id, ann, "owner")
        _, raw = api_keys.create(db, ours.id, ann, "Laptop")
    sign_in = SignIn(control)
    session, link = sign_in.use_link(sign_in.make_link(ann)), sign_in.make_link(ann)
    assert session is not None
    with control.transaction() as db:
        people.delete_user(db, ann)
        assert people.find_user(db, "ann@example.org") is None
        assert api_keys.find_holder(db, raw) is None
    assert sign_in.find_visitor(session.token) is None
    assert sign_in.find_link(link) is None
