"""The windows of subscriptions as JSON, in responses of the API and the page."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Self

from pydantic import Field

from metering.limit_windows import WindowState
from runtime import clock
from store.json_models import Instant, ListResponse, ResponseModel


class LimitWindow(ResponseModel):
    account: Annotated[
        str, Field(description="The fingerprint of an account, or of a credential that names none.")
    ]
    window: Annotated[str, Field(description="5h, 7d, 7d_oi, or another one that upstream states.")]
    used: Annotated[float, Field(description="The share that was used at read_at, 1 for all.")]
    left: Annotated[
        float | None,
        Field(
            description="The share that is left at most; null after a reset until the next call."
        ),
    ]
    resets_at: Instant | None
    read_at: Instant
    used_up_at: Annotated[
        Instant | None,
        Field(description="Expected at the recent pace; null if it lasts or too little is known."),
    ]
    status: Annotated[str | None, Field(description="As upstream states it, such as allowed.")]

    @classmethod
    def make(cls, state: WindowState) -> Self:
        return cls.of(
            state,
            resets_at=_format(state.resets_at),
            read_at=clock.format_ms(state.read_at),
            used_up_at=_format(state.used_up_at),
        )


class Limits(ListResponse):
    """The windows of all accounts, on one page."""

    items: Sequence[LimitWindow]

    @classmethod
    def make(cls, states: Sequence[WindowState]) -> Self:
        return cls(
            items=[LimitWindow.make(each) for each in states], next_cursor=None, has_more=False
        )


def _format(instant: datetime | None) -> str | None:
    return None if instant is None else clock.format_seconds(instant)
