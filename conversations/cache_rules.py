"""Rules of upstream's prompt cache by model and day, from ``cache_rules.toml``.

Unknown facts are None: no model is judged by the rules of another one."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

from wire.block import CacheTtl


class CacheRulesError(Exception):
    """An unusable file of cache rules. The message names the file and the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRules:
    """The rules of some models since a day.

    ``minimum_tokens`` is the size of the smallest prefix that is cached. ``keeps_thinking`` says
    whether thinking of earlier turns stays in the prompt."""

    match: tuple[str, ...] = ()
    starts: date = date.min
    minimum_tokens: int | None = None
    keeps_thinking: bool | None = None


_UNKNOWN = ModelRules()
_KINDS: Mapping[str, type] = {"minimum_tokens": int, "keeps_thinking": bool, "starts": date}


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """The rules of prompt caches, by model. The last entry that matches a model is used."""

    models: tuple[ModelRules, ...]
    lifetimes_s: Mapping[CacheTtl, int]
    lookback_positions: int

    def find(self, model: str | None, day: date) -> ModelRules:
        """Return the rules of a model on a day; all facts are None for an unknown model."""
        for each in reversed(self.models):
            if each.starts <= day and any(fnmatchcase(model or "", name) for name in each.match):
                return each
        return _UNKNOWN


@cache
def read_own_rules() -> CacheRules:
    """Return the rules that are part of this program."""
    name = "conversations/cache_rules.toml"
    text = files("conversations").joinpath("cache_rules.toml").read_text(encoding="utf-8")
    document = _parse(text, name)
    return CacheRules(
        models=parse_model_rules(text, name),
        lifetimes_s=document["lifetimes_s"],
        lookback_positions=document["lookback_positions"],
    )


def parse_model_rules(text: str, file_name: str) -> tuple[ModelRules, ...]:
    """Return the entries of a file of cache rules. Raises CacheRulesError."""
    tables = _parse(text, file_name).get("models")
    if not isinstance(tables, list):
        raise CacheRulesError(f"{file_name}: models: must be a list of [[models]] tables")
    return tuple(
        _parse_entry(table, f"{file_name}: models[{number}]")
        for number, table in enumerate(tables, start=1)
    )


def _parse(text: str, file_name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise CacheRulesError(f"{file_name}: {error}") from error


def _parse_entry(table: dict[str, Any], place: str) -> ModelRules:
    rest = dict(table)
    names = rest.pop("match", None)
    rest.pop("source", None)
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise CacheRulesError(f"{place}: match: must be a list of names of models")
    for name, value in rest.items():
        kind = _KINDS.get(name)
        if kind is None:
            raise CacheRulesError(f"{place}: {name}: is not a field of this table")
        if type(value) is not kind or (type(value) is int and value < 0):
            raise CacheRulesError(f"{place}: {name}: must be {_describe(kind)}")
    return ModelRules(match=tuple(names), **rest)


def _describe(kind: type) -> str:
    if kind is date:
        return "a day such as 2026-11-01"
    return "true or false" if kind is bool else "a whole number of tokens"
