from hypothesis import given, strategies as st

from runtime import credential_texts
from runtime.credential_texts import drop_credential

PARTS = st.sampled_from(
    [
        "sk-ant-",
        "SK-ANT-x",
        "sk_",
        "a" * 43,
        "Bearer ",
        "bearer",
        " x",
        "\u017fk-ant-",
        "s\u212a_",
        "é",
    ]
)


@given(st.lists(PARTS, max_size=4).map("".join))
def test_a_value_is_dropped_just_where_it_holds_a_credential(value):
    dropped = drop_credential(value) is None
    assert dropped is bool(credential_texts._CREDENTIAL.search(value))
