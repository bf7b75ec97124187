"""``/savings.json`` and ``/sessions/<id>/savings.json``: the models of their responses."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from dashboard.savings.findings import Findings, Shown
from store.json_models import Cents, Instant, ListResponse, ResponseModel, SumOfCents


class FindingCall(ResponseModel):
    id: int
    cost_cents: Cents | None


class LargestFinding(ResponseModel):
    session_id: str
    calls: Sequence[FindingCall]


class Finding(ResponseModel):
    finding: str
    title: str
    subject: str
    is_saving: bool
    measured: bool
    calls: int
    tokens: int
    cost_cents: SumOfCents
    unpriced_tokens: int
    remedy: str
    formula: str
    largest: LargestFinding

    @classmethod
    def make(cls, shown: Shown) -> Self:
        kind, group = shown.kind, shown.group
        calls = [FindingCall(id=call.id, cost_cents=call.cents) for call in shown.calls]
        return cls.of(
            group,
            title=kind.title,
            is_saving=kind.is_saving,
            measured=kind.is_measured,
            cost_cents=group.cents,
            remedy=shown.remedy,
            formula=kind.formula,
            largest=LargestFinding(session_id=group.largest_session, calls=calls),
        )


class SmallerFindings(ResponseModel):
    count: int
    cost_cents: SumOfCents


class _Findings(ListResponse):
    """A list of findings as other list responses are, but always on one page."""

    items: Sequence[Finding]
    total_cents: SumOfCents
    unpriced_tokens: int
    smaller: SmallerFindings

    @classmethod
    def make(cls, found: Findings, **fields: object) -> Self:
        return cls.of(
            found,
            items=[Finding.make(each) for each in (*found.savings, *found.expensive)],
            next_cursor=None,
            has_more=False,
            smaller=SmallerFindings(count=found.smaller, cost_cents=found.smaller_cents),
            **fields,
        )


class SavingsSession(ResponseModel):
    session_id: str
    cost_cents: SumOfCents


class Savings(_Findings):
    span: str
    first_day: Annotated[str, Field(json_schema_extra={"format": "date"})]
    last_day: Annotated[str, Field(json_schema_extra={"format": "date"})]
    sessions_due: Annotated[int, Field(description="The number of sessions not analysed yet.")]
    sessions: Sequence[SavingsSession]


class SessionSavings(_Findings):
    session_id: str
    method: Annotated[
        int | None, Field(description="The version of the rules; null if not analysed yet.")
    ]
    computed_at: Instant | None
    calls: int
