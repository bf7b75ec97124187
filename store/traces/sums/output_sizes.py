"""Characters per token of each model, as running sums.

Each measured response reduces the weight of earlier ones a little, so the figures follow a model
that changes. Retention keeps them."""

import sqlite3
from dataclasses import fields
from operator import attrgetter

from metering.delivered import UNKNOWN_SIZE, OutputSize

KEPT_SHARE = 0.98  # of the sums, at each response: the last 50 decide
MAX_MODELS = 1_000  # a name comes from outside, and each makes a row

_NAMES = tuple(field.name for field in fields(OutputSize))
_values = attrgetter(*_NAMES)
_SELECT = f"select {', '.join(_NAMES)} from output_sizes where model = ?"  # noqa: S608 - our own names
_UPSERT = (
    f"insert into output_sizes (model, calls, {', '.join(_NAMES)})"  # noqa: S608 - our own names
    f" select ?, 1{', ?' * len(_NAMES)}"
    " where (select count(*) from output_sizes) < ?"
    " or exists (select 1 from output_sizes where model = ?)"
    " on conflict (model) do update set calls = calls + 1, "
    + ", ".join(f"{name} = {name} * {KEPT_SHARE} + excluded.{name}" for name in _NAMES)
)


def read_size(connection: sqlite3.Connection, model: str | None) -> OutputSize:
    """Return the sums of a model, zeros if it has none."""
    row = connection.execute(_SELECT, (model,)).fetchone()
    return UNKNOWN_SIZE if row is None else OutputSize(**dict(zip(_NAMES, row, strict=True)))


def write_size(connection: sqlite3.Connection, model: str, size: OutputSize) -> None:
    """Add the size of a complete response to the sums of its model."""
    connection.execute(_UPSERT, (model, *_values(size), MAX_MODELS, model))
