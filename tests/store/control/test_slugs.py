import pytest
from hypothesis import given, strategies as st

from store.control import slugs


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Café #1", "cafe-1"),
        ("My  Team", "my-team"),
        ("--a--", "a"),
        ("Straße", "strasse"),
        ("北京", "bei-jing"),
        ("!!!", "endpoint"),
        ("", "endpoint"),
        ("x" * 100, "x" * 63),
    ],
)
def test_a_slug_is_made_from_a_name(name, slug):
    assert slugs.make_slug(name) == slug


@given(st.text())
def test_every_name_gives_a_slug(name):
    slug = slugs.make_slug(name)
    assert slugs.is_slug(slug)
    assert slugs.is_slug(slugs.add_suffix(slug))


@given(st.from_regex(r"[a-z0-9]+(-[a-z0-9]+)*", fullmatch=True).filter(lambda s: len(s) <= 63))
def test_a_slug_as_a_name_stays_as_it_is(slug):
    assert slugs.make_slug(slug) == slug
