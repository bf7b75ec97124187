import orjson
import pytest
from hypothesis import example, given, strategies as st

from metering import attribution
from metering.attribution import Attribution, read_attribution

TAGS = b"x-taximeter-tags"


def read(**headers):
    """Read headers by name: ``user`` is x-taximeter-user."""
    named = {f"x-taximeter-{name}".encode(): [value] for name, value in headers.items()}
    return read_attribution(named, lambda _: True)


def read_tags(*values):
    return read_attribution({TAGS: values}, lambda _: True)


def test_a_call_is_attributed_to_a_user_a_project_and_tags():
    found = read(user="Ann.Lee@example.com", project="shop/checkout+eu", tags="env:prod, Nightly")
    assert found == Attribution(
        user="Ann.Lee@example.com",
        project="shop/checkout+eu",
        tags=(
            "env:prod",
            "nightly",
        ),
    )


def test_tags_are_in_small_letters_sorted_and_unique():
    assert read_tags("b,A,a , ,,c:D", "B,d").tags == (
        "a",
        "b",
        "c:d",
        "d",
    )
    assert read_tags("b,A,a , ,,c:D", "B,d").left_out == 0


@pytest.mark.parametrize("wrong", ["two words", "naïve", "a\tb", "<b>", "x" * 65, "quote'"])
def test_a_name_that_breaks_a_rule_is_left_out_and_counted(wrong):
    assert read(user=wrong) == Attribution(left_out=1)
    assert read(project=wrong, user="ann") == Attribution(user="ann", left_out=1)


@pytest.mark.parametrize(
    "wrong", ["two words", "x" * 41, "user:ann", "Project:x", "user:", "na\xefve", "a=b"]
)
def test_of_tags_only_the_one_that_breaks_a_rule_is_left_out(wrong):
    assert read_tags(f"a,{wrong},b") == Attribution(
        tags=(
            "a",
            "b",
        ),
        left_out=1,
    )


def test_the_longest_names_and_tags_are_kept():
    assert read(user="u" * 64, project="p" * 64, tags="t" * 40) == Attribution(
        user="u" * 64, project="p" * 64, tags=("t" * 40,)
    )


def test_of_more_than_ten_tags_the_first_ten_are_kept():
    given_tags = [f"t{number}" for number in range(20, 0, -1)]
    found = read_tags("bad one", ",".join([*given_tags, "t20"]))
    assert found.tags == tuple(sorted(given_tags[:10]))
    assert found.left_out == 11


def test_nothing_and_what_is_empty_is_nothing():
    assert read() == attribution.NOTHING
    assert read(user="", project="  ", tags=" , ,") == attribution.NOTHING


def test_the_headers_of_litellm_mean_the_same_where_ours_are_not_there():
    theirs = {
        b"x-litellm-tags": ["Jobs:Nightly,b"],
        b"x-litellm-customer-id": ["acme"],
        b"x-litellm-end-user-id": ["ann"],
    }
    found = read_attribution(theirs, lambda _: True)
    assert found == Attribution(
        user="acme",
        tags=(
            "b",
            "jobs:nightly",
        ),
    )
    ours = {b"x-taximeter-user": ["bob"], TAGS: ["c"]}
    assert read_attribution(theirs | ours, lambda _: True) == Attribution(user="bob", tags=("c",))
    del theirs[b"x-litellm-customer-id"]
    assert read_attribution(theirs, lambda _: True).user == "ann"


def test_what_may_not_be_kept_is_left_out():
    found = read_attribution(
        {b"x-taximeter-user": ["secret"], TAGS: ["secret,a"]}, lambda value: value != "secret"
    )
    assert found == Attribution(tags=("a",), left_out=2)


texts = st.text(max_size=80) | st.text("abAB.:_@/+-,1 ", max_size=120)


@given(st.dictionaries(st.sampled_from(sorted(attribution.HEADERS)), st.lists(texts, max_size=3)))
@example({TAGS: [",".join("abcdefghijklmnop")]})
def test_whatever_comes_what_is_kept_is_within_the_rules_and_is_read_again_as_it_is(named):
    found = read_attribution(named, lambda _: True)
    for name in (found.user, found.project):
        assert name is None or (1 <= len(name) <= 64 and name.isascii() and " " not in name)
    assert len(found.tags) <= 10
    assert list(found.tags) == sorted(set(found.tags))
    assert all(1 <= len(tag) <= 40 and tag == tag.lower() for tag in found.tags)
    assert not {"user", "project"} & {tag.split(":")[0] for tag in found.tags if ":" in tag}
    again = attribution.keep_valid(found.user, found.project, attribution.write_tags(found.tags))
    assert (again.user, again.project, again.tags) == (
        found.user, found.project, found.tags,
    )  # fmt: skip
    assert again.left_out == 0


def test_tags_are_stored_as_a_list_and_none_as_nothing():
    assert orjson.loads(attribution.write_tags(["a", "b:c"]) or "") == ["a", "b:c"]
    assert attribution.write_tags([]) is None
    assert attribution.parse_tags('["a","b:c"]') == ["a", "b:c"]


@pytest.mark.parametrize("stored", [None, "", "{}", "[", '"a"', "[1]", "null"])
def test_what_is_no_list_of_tags_has_none(stored):
    assert attribution.parse_tags(stored) == []


@pytest.mark.parametrize(
    ("tag", "pair"),
    [
        ("env:prod", ("env", "prod")),
        ("a:b:c", ("a", "b:c")),
        ("nightly", ("nightly", "")),
        ("key:", ("key:", "")),
        (":value", (":value", "")),
    ],
)
def test_a_tag_has_a_key_or_is_a_name(tag, pair):
    assert attribution.split_tag(tag) == pair
