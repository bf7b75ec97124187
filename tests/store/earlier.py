"""Schemas of earlier versions."""

import re
from types import ModuleType

from store.migrations import Migrations


def make_earlier(schema: ModuleType, number: int) -> Migrations:
    """Return the migrations of a schema up to this number, which an earlier version had."""
    names = sorted(name for name in vars(schema) if re.match(r"m\d{3}_", name))
    earlier = Migrations(schema.migrations.name)
    for name in names[:number]:
        earlier()(getattr(schema, name))
    return earlier
