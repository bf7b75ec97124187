import pytest

from metering.model_names import find_version, is_same_model


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("claude-opus-4-5", "claude-opus-4-5", True),
        ("claude-opus-4-5", "claude-opus-4-5-20251101", True),
        ("claude-opus-4-5-latest", "claude-opus-4-5-20251101", True),
        ("claude-opus-4-5@20251101", "claude-opus-4-5", True),
        ("claude-fable-5", "claude-fable-5-1", False),
        ("claude-opus-4-5", "claude-opus-4-8", False),
        (None, None, False),
        (None, "claude-opus-4-5", False),
    ],
)
def test_a_model_may_be_named_with_or_without_its_snapshot(one, other, same):
    assert is_same_model(one, other) is same
    assert is_same_model(other, one) is same


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("claude-opus-4-6", (4, 6)),
        ("claude-4.6-opus", (4, 6)),
        ("claude-sonnet-5@20260101", (5, 0)),
        ("claude-sonnet-4-20250514", (4, 0)),
        ("another-model", None),
    ],
)
def test_the_version_is_read_in_each_order_of_a_name(name, version):
    assert find_version(name) == version
