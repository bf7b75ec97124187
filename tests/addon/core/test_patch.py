"""Patches are applied to what they were written for, and to nothing else."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from mitmproxy import version

from addon.core import patch
from addon.core.patch import MitmproxyChangedError, Patch


class Core:
    def add(self, number):
        return number + 1


@pytest.fixture
def core():
    """A class to patch, in the place of mitmproxy's."""
    return type("Core", (Core,), {})


def make_patch(owner, name="add", digest=None, replace=None):
    return Patch(
        owner=owner,
        name=name,
        reason="",
        contract_test="",
        digest=patch.digest_source(Core.add) or "" if digest is None else digest,
        replace=replace,
    )


def add_given(original, given):
    return lambda self, number: original(self, number) + given


def test_a_patch_replaces_a_function_by_what_is_made_of_it(core):
    patch.apply([make_patch(core, replace=add_given)], 10)
    assert core().add(1) == 12


def test_patches_that_are_applied_again_take_the_place_of_those_before(core):
    patches = [make_patch(core, replace=add_given)]
    patch.apply(patches, 10)
    patch.apply(patches, 20)
    assert core().add(1) == 22


def test_an_overridden_function_is_left_alone(core):
    patch.apply([make_patch(core)], 10)
    assert core().add(1) == 2


def test_patches_that_fit_pass_the_check(core):
    patch.check([make_patch(core)])


def test_a_function_without_a_digest_is_one_that_mitmproxy_does_not_have(core):
    def fits(module):
        core.add.__module__ = module
        return replace(make_patch(core), digest=None).fits

    before = Core.add.__module__
    try:
        assert (fits("collections.abc"), fits("mitmproxy.http")) == (True, False)
    finally:
        Core.add.__module__ = before
    assert not replace(make_patch(core, name="subtract"), digest=None).fits


@pytest.mark.parametrize(("name", "digest"), [("add", "0" * 16), ("subtract", None)])
def test_a_function_that_changed_or_went_is_named_with_the_remedy(core, name, digest):
    with pytest.raises(MitmproxyChangedError) as raised:
        patch.check([make_patch(core), make_patch(core, name, digest)])
    assert f"mitmproxy {version.VERSION}" in str(raised.value)
    assert f"(Core.{name})" in str(raised.value)
    assert f"pip install '{patch.REQUIREMENT}'" in str(raised.value)


def test_a_function_without_source_does_not_fit():
    owner = SimpleNamespace(__name__="builtins", add=len)
    assert not make_patch(owner, digest="").fits
