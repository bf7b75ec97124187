"""Types of options. Their errors quote the value that was given, and say what to write instead."""

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NoReturn

import click

from metering.attribution import Part, PartKind, check_part
from metering.budget_shares import MAX_SHARES, check_shares
from runtime.settings import parse_size
from runtime.suggestions import suggest

OFF = "off"
_PARTS: Mapping[str, PartKind] = {"user": "user", "project": "project", "tag": "tag"}
_AGE = re.compile(r"(\d{1,5})\s*d(?:ays?)?", re.ASCII)
_DAYS = re.compile(r"(\d{1,5})d?", re.ASCII)


class Choice(click.Choice[str]):
    """One of several words. An error suggests the most similar one."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        hint = suggest(str(value), self.choices)
        return f"{value!r} is not one of {', '.join(self.choices)}{hint}"


class Whole(click.IntRange):
    """A whole number within limits."""

    def __init__(self, least: int, most: int | None = None, *, example: int) -> None:
        super().__init__(least, most)
        within = f"of {least} or more" if most is None else f"from {least} to {most}"
        self._kind, self._example = f"a whole number {within}", f"a number such as {example}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            _refuse(value, self._kind, self._example, param, ctx)


class Amount(click.FloatRange):
    """A number within limits. ``kind`` names it in errors, as in "an amount in dollars"."""

    def __init__(self, kind: str, example: str, **limits: Any) -> None:
        super().__init__(**limits)
        self._kind, self._example = kind, f"a number such as {example}"

    def _describe_range(self) -> str:
        """Return the range for the help, empty without limits, for which click would write ``x<=None``."""
        return "" if self.min is None and self.max is None else super()._describe_range()

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if not math.isfinite(number):
            _refuse(value, self._kind, self._example, param, ctx)
        return number


DOLLARS = Amount("an amount in dollars", "50 or 12.50", min=0, min_open=True)


class Age(click.ParamType[timedelta]):
    """A number of days ago: ``30d``."""

    name = "days"

    def convert(
        self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        found = _AGE.fullmatch(value.strip())
        if found is None or not int(found[1]):
            _refuse(value, "a number of days", "one such as 30d", param, ctx)
        return timedelta(days=int(found[1]))


class DaysOrOff(click.ParamType[int | str]):
    """A number of days, or ``off``."""

    name = "days"

    def convert(
        self, value: int | str, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        text = str(value).strip()
        if text == OFF:
            return OFF
        found = _DAYS.fullmatch(text)
        if found is None:
            _refuse(value, "a number of days", "one such as 30, or off", param, ctx)
        return int(found[1])


class Size(click.ParamType[int | str]):
    """A number of bytes: ``500MB``, or ``off`` where that is allowed."""

    name = "size"

    def __init__(self, *, or_off: bool = False) -> None:
        self._or_off = or_off

    def convert(
        self, value: int | str, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        if isinstance(value, int) or (self._or_off and value == OFF):
            return value
        try:
            return parse_size(value)
        except ValueError:
            example = "one such as 500MB or 1GB" + (", or off" if self._or_off else "")
            _refuse(value, "a size", example, param, ctx)


class PartOfCalls(click.ParamType[Part]):
    """The calls of a user or a project, or with a tag: ``project=shop``."""

    name = "part"

    def convert(
        self, value: str | Part, param: click.Parameter | None, ctx: click.Context | None
    ) -> Part:
        if isinstance(value, Part):
            return value
        kind, _, named = value.partition("=")
        if kind not in _PARTS or not named:
            _refuse(value, "a user, a project or a tag", "one such as project=shop", param, ctx)
        try:
            return check_part(_PARTS[kind], named)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error


class Shares(click.ParamType[list[float]]):
    """Shares of a limit, with commas between them: ``0.5,0.9``."""

    name = "shares"

    def convert(
        self, value: str | list[float], param: click.Parameter | None, ctx: click.Context | None
    ) -> list[float]:
        if isinstance(value, list):
            return value
        try:
            return list(check_shares(float(each) for each in value.split(",") if each.strip()))
        except ValueError:
            kind = f"a list of up to {MAX_SHARES} shares above 0 and up to 1"
            _refuse(value, kind, "numbers such as 0.5,0.9", param, ctx)


def _refuse(
    value: object,
    kind: str,
    example: str,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> NoReturn:
    """Raise click.BadParameter, which names the option, the value, its kind and an example."""
    raise click.BadParameter(f"{value!r} is not {kind}: write {example}", ctx, param)
