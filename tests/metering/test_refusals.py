from datetime import UTC, datetime

import pytest

from metering.refusals import is_billed_before_output

JUNE_1 = datetime(2026, 6, 1, 23, 59, tzinfo=UTC)
JUNE_2 = datetime(2026, 6, 2, tzinfo=UTC)
SEPTEMBER_23 = datetime(2026, 9, 23, 23, 59, tzinfo=UTC)
SEPTEMBER_24 = datetime(2026, 9, 24, tzinfo=UTC)


@pytest.mark.parametrize(
    ("category", "days"),
    [
        ("cyber", [JUNE_1]),
        ("general_harms", [JUNE_1]),
        (None, [JUNE_1]),
        ("a category of tomorrow", [JUNE_1]),
        ("bio", [JUNE_1, SEPTEMBER_24]),
        ("frontier_llm", [JUNE_1, SEPTEMBER_24]),
        ("reasoning_extraction", [JUNE_1, SEPTEMBER_24]),
    ],
)
def test_the_category_and_the_day_decide_whether_a_refusal_is_billed(category, days):
    asked = (JUNE_1, JUNE_2, SEPTEMBER_23, SEPTEMBER_24)
    assert [at for at in asked if is_billed_before_output(category, at)] == days
