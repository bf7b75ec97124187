"""Canned queries: one ``.sql`` file each, whose first comment is its head in TOML.

``:prompt_tokens`` in the SQL stands for the sum of the columns that the prompt is counted in. The SQL
uses an integer parameter directly, as ``:days``. Plain Datasette has no defaults and passes parameters
as text, so in the generated SQL an integer parameter with a default is replaced by an expression with
conversion and default.
"""

import re
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from dashboard.tables import parameters, query_limits
from dashboard.tables.metadata.declarations import Declaration, MetadataError, Words, parse
from metering.token_counts import PROMPT_CLASSES

_FILE = re.compile(r"/\*(?P<head>.*?)\*/\s*+(?P<sql>.+)", re.DOTALL)
_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
# What a colon means nothing in comes first.
_PARAMETER = re.compile(
    r"'[^']*+'?|\"[^\"]*+\"?|--[^\n]*|/\*.*?(?:\*/|\Z)|:(?P<name>\w+)", re.DOTALL
)
# In the place of a parameter of this name, the sum of the columns of the prompt.
_PROMPT = "prompt_tokens"
_PROMPT_SUM = f"({' + '.join(each.name for each in PROMPT_CLASSES)})"
_LIMIT_MS = 10_000.0  # on empty tables: only a query that never ends takes so long


class Integer(Declaration):
    """A parameter that is a whole number."""

    label: Words
    type: Literal["integer"]
    minimum: int
    maximum: int
    default: int | None = None


class Choice(Declaration):
    """A parameter that is one of several words."""

    label: Words
    type: Literal["choice"]
    choices: list[Words]
    default: str | None = None


class Text(Declaration):
    """A parameter that is any text."""

    label: Words
    type: Literal["text"]
    default: str | None = None


type Parameter = Annotated[Integer | Choice | Text, Field(discriminator="type")]


class Head(Declaration):
    """The head of a canned query. Pages list queries by ascending ``place``."""

    title: Words
    description: Words
    place: int
    parameters: dict[str, Parameter] = Field(default_factory=dict)


def read_queries(folder: Path, connection: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Return the metadata of the canned queries in a folder, by name, in the order of their ``place``.

    ``connection`` is to an empty trace database, on which each query is run. Raises MetadataError."""
    query_limits.prepare(connection)
    found = []
    for path in folder.glob("*.sql"):
        head, sql = _read_file(path)
        about = _describe(path, head, sql)
        _run(path, connection, about)
        found.append(((head.place, path.stem), about))
    return {name: about for (_, name), about in sorted(found, key=lambda each: each[0])}


def _read_file(path: Path) -> tuple[Head, str]:
    if not _NAME.fullmatch(path.stem):
        raise MetadataError(
            f"{path.name}: not a valid name: use lower-case letters, digits and underscores"
        )
    parts = _FILE.fullmatch(path.read_text().strip())
    if parts is None:
        raise MetadataError(f"{path.name}: begin the file with a head, /* title = … */, then SQL")
    return parse(Head, parts["head"], path.name), _fill_prompt(parts["sql"])


def _describe(path: Path, head: Head, sql: str) -> dict[str, Any]:
    """Return the metadata of a query. Raises MetadataError."""
    declared = head.model_dump(exclude_none=True)["parameters"]
    used = set(_find_parameters(sql))
    for name in sorted(used - set(declared)):
        raise MetadataError(f"{path.name}: the SQL uses :{name}: add parameters.{name} to the head")
    for name, about in declared.items():
        if name not in used:
            raise MetadataError(f"{path.name}: the SQL does not use :{name}: remove it, or use it")
        if "default" in about:
            _check_default(path, name, about)
    described = {
        "title": head.title,
        "description": head.description,
        "sql": _fill_defaults(sql, declared),
    }
    return described | ({"params": list(declared), "parameters": declared} if declared else {})


def _check_default(path: Path, name: str, about: Mapping[str, Any]) -> None:
    try:
        parameters.check(name, about, str(about["default"]))
    except parameters.InvalidParameterError as error:
        raise MetadataError(f"{path.name}: default: {error}") from error


def _find_parameters(sql: str) -> Iterator[str]:
    for found in _PARAMETER.finditer(sql):
        if found["name"]:
            yield found["name"]


def _fill_prompt(sql: str) -> str:
    return _PARAMETER.sub(lambda found: _PROMPT_SUM if found["name"] == _PROMPT else found[0], sql)


def _fill_defaults(sql: str, declared: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the SQL with conversion and default in place of each integer parameter with a default."""

    def fill(found: re.Match[str]) -> str:
        about = declared.get(found["name"] or "", {})
        if about.get("type") != "integer" or "default" not in about:
            return found[0]
        return f"cast(coalesce(nullif({found[0]}, ''), {about['default']}) as integer)"

    return _PARAMETER.sub(fill, sql)


def _run(path: Path, connection: sqlite3.Connection, about: Mapping[str, Any]) -> None:
    """Run a query under the limits of pages, with blank parameters. Raises MetadataError."""
    blank = dict.fromkeys(about.get("params", ()), "")
    try:
        with query_limits.limits(connection, _LIMIT_MS, threading.Event()):
            connection.execute(about["sql"], blank).fetchall()
    except (sqlite3.Error, query_limits.TooLargeError) as error:
        raise MetadataError(f"{path.name}: {error}") from error
