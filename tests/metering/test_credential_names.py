import pytest

from metering.credential_names import name_credential

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
