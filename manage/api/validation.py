"""Validation of requests, with error messages written for the sender of the request."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from pydantic import ValidationError

from runtime import clock
from runtime.errors import InvalidInputError
from store.json_models import RequestModel


def validate[Model: RequestModel](
    model: type[Model], given: object, *, by_name: bool = False
) -> Model:
    """Return the request model made from ``given``. Raises InvalidInputError.

    ``by_name``: the keys are the names of the fields in Python, not in JSON."""
    try:
        return model.model_validate(given, by_name=by_name, by_alias=not by_name)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = str(fault["loc"][0]) if fault["loc"] else None
        raise InvalidInputError(_describe(fault), name) from error


def parse_instant(text: str | None, field: str) -> str | None:
    """Return an instant in the format of the databases, None for None. Raises InvalidInputError."""
    if text is None:
        return None
    try:
        return clock.format_ms(clock.parse_instant(text))
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{field} is a day or an instant such as 2026-01-31 or 2026-01-31T18:00:00Z", field
        ) from error


def check_period(from_day: date | None, to_day: date | None) -> None:
    """Check that a period does not end before it begins. Raises InvalidInputError."""
    if from_day is not None and to_day is not None and from_day > to_day:
        raise InvalidInputError("from must not come after to", "from")


def _describe(fault: Mapping[str, Any]) -> str:
    match fault["type"]:
        case "missing":
            return "this field is required"
        case "extra_forbidden":
            return "there is no such field"
        case "model_type" | "model_attributes_type":
            return "send a JSON object"
        case _:
            return str(fault["msg"]).removeprefix("Value error, ")
