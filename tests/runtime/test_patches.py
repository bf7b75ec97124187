"""Patches are applied to what they were written for, and to nothing else."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from runtime import patches
from runtime.patches import Patch


class Library:
    def add(self, number):
        return number + 1

    @property
    def total(self):
        return 1


@pytest.fixture
def library():
    """A class to patch."""
    return type("Library", (Library,), {})


def make_patch(owner, name="add", digest=None, replace=None, guards=None):
    return Patch(
        owner=owner,
        name=name,
        reason="",
        contract_test="",
        digest=patches.digest_source(Library.add) or "" if digest is None else digest,
        replace=replace,
        guards=guards,
    )


def add_given(original, given):
    return lambda self, number: original(self, number) + given


def test_a_patch_replaces_a_function_by_what_is_made_of_it(library):
    patches.apply([make_patch(library, replace=add_given)], 10)
    assert library().add(1) == 12


def test_patches_that_are_applied_again_take_the_place_of_those_before(library):
    listed = [make_patch(library, replace=add_given)]
    patches.apply(listed, 10)
    patches.apply(listed, 20)
    assert library().add(1) == 22


def test_an_overridden_function_is_left_alone(library):
    patches.apply([make_patch(library)], 10)
    assert library().add(1) == 2


def test_a_function_without_a_digest_is_one_of_another_library(library):
    def fits(module):
        library.add.__module__ = module
        return replace(make_patch(library), digest=None).fits

    before = Library.add.__module__
    try:
        assert (fits("collections.abc"), fits(f"{library.__module__}.http")) == (True, False)
    finally:
        Library.add.__module__ = before
    assert not replace(make_patch(library, name="subtract"), digest=None).fits


@pytest.mark.parametrize(("name", "digest"), [("add", "0" * 16), ("subtract", None)])
def test_a_function_that_changed_or_went_is_named(library, name, digest):
    listed = [make_patch(library), make_patch(library, name, digest)]
    assert patches.find_changed(listed) == [f"Library.{name}"]


def test_a_function_without_source_does_not_fit():
    owner = SimpleNamespace(__name__="builtins", add=len)
    assert not make_patch(owner, digest="").fits


def test_properties_and_files_have_a_digest_too(library, tmp_path):
    assert patches.digest_source(Library.total)
    path = tmp_path / "page.html"
    assert patches.digest_source(path) is None
    path.write_text("one")
    digest = patches.digest_source(path)
    assert make_patch(library, digest=digest, guards=path).fits
    path.write_text("two")
    assert not make_patch(library, digest=digest, guards=path).fits
