"""Old addresses whose fragments only a script can follow."""

import pytest


@pytest.mark.parametrize(
    ("old", "path"),
    [
        ("/settings#budgets", "/settings/budgets"),
        ("/settings#retention", "/settings/data"),
        ("/settings#members", "/settings/people"),
        ("/settings#keys", "/settings/people"),
        ("/settings", "/settings/endpoints"),
        ("/secrets", "/settings/security"),
    ],
)
def test_parts_of_the_settings_are_found_where_they_are_now(rosa, old, path):
    rosa.open("/sessions")  # from another page: a fragment alone loads nothing
    rosa.open(old)
    rosa.wait_for(lambda: rosa.path == path, lambda: f"{path}, not {rosa.path}")


def test_the_bill_of_a_call_is_found_where_it_is_now(rosa, example):
    call = example.ids["lost-tool"]
    rosa.open("/sessions")
    rosa.open(f"/traces/usage/{call}#bill")
    rosa.wait_for(lambda: rosa.path == f"/calls/{call}/cost", lambda: rosa.path)
