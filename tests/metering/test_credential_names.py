import pytest

from metering.credential_names import name_credential, spread_names

FINGERPRINT = "7d1c09aa54ef8b021f2e3d4c5b6a7988"


@pytest.mark.parametrize(
    ("fingerprint", "shown"),
    [
        (FINGERPRINT, "ci key"),
        ("0123456789abcdef", "01234567"),
        ("(other)", "(other)"),
        ("", "no credential"),
        (None, "no credential"),
    ],
)
def test_a_credential_is_shown_by_its_name_or_by_its_fingerprint(fingerprint, shown):
    assert name_credential(fingerprint, {FINGERPRINT: "ci key"}) == shown


@pytest.mark.parametrize("named", ["old", "new", "account"])
def test_all_tokens_of_an_account_have_its_name(named):
    accounts = {"old": "account", "new": "account", "other": "another"}
    names = spread_names({named: "laptop of Ana", "key": "ci"}, accounts)
    assert {each for each, name in names.items() if name == "laptop of Ana"} == {
        "old",
        "new",
        "account",
    }
    assert names["key"] == "ci"
    assert "other" not in names


def test_a_name_of_its_own_stays_and_the_newest_is_that_of_the_account():
    accounts = {"old": "account", "new": "account", "newest": "account"}
    names = spread_names({"old": "first", "new": "second"}, accounts)
    assert (names["old"], names["new"], names["newest"], names["account"]) == (
        "first",
        "second",
        "second",
        "second",
    )
