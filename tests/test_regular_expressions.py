"""Each regular expression of ours takes time in proportion to the text.

A text that somebody records, or a header of anybody's, is otherwise enough to stop a process that serves
everybody: nothing interrupts a match.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from extensions.credentials_in_calls import rules as secret_rules
from tests import ROOT
from tests.matching_times import Case, find_slow
from tests.sources import parse
from tests.test_architecture import find_modules

USES = {
    "match": "match",
    "fullmatch": "fullmatch",
    **dict.fromkeys(("search", "sub", "subn", "findall", "finditer", "split"), "search"),
}
ALL = ("match", "fullmatch", "search")
# Expressions that are put together by a function, by the file in which they are.
MADE = {
    "extensions/credentials_in_calls/rules.py": lambda: (
        secret_rules.load_rules(),
        secret_rules._compile_needs(),
    ),
}

# How a file uses its expressions, where it gives them to a function.
ONLY = {"extensions/cluster/checks.py": ("fullmatch",)}


def make_case(name: str, pattern: re.Pattern[Any], methods: tuple[str, ...] = ALL) -> Case:
    """Return the case of one expression."""
    source = pattern.pattern
    is_bytes = isinstance(source, bytes)
    text = source.decode("latin-1") if is_bytes else source
    flags = pattern.flags if is_bytes else pattern.flags & ~re.UNICODE
    return Case(name, text, is_bytes, flags, methods)


@cache
def list_uses(path: str) -> dict[str, set[str]]:
    """Return how a file uses each of its names as an expression. A name that it uses in any other way has
    "any" besides."""
    called: dict[str, set[str]] = {}
    as_method = set()
    tree = parse(ROOT / path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called.setdefault(node.value.id, set()).add(USES.get(node.attr, node.attr))
            as_method.add(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in as_method:
            called.setdefault(node.id, set()).add("any")
    return called


def find_methods(path: str, name: str) -> tuple[str, ...]:
    """Return by which methods an expression is used: all, unless the file alone has it and says."""
    if path in ONLY:
        return ONLY[path]
    uses = list_uses(path).get(name, {"any"})
    if not name.startswith("_") or not uses <= {*ALL, "pattern"}:
        return ALL
    return tuple(sorted(uses & set(ALL)))


def walk_values(name: str, value: Any, seen: set[int]) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Yield each expression in a value, its containers and its objects of ours."""
    if isinstance(value, re.Pattern):
        yield name, value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        within: Any = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        within = value
    elif is_dataclass(value) and not isinstance(value, type):
        within = [getattr(value, field.name, None) for field in fields(value)]
    elif isinstance(value, type) and value.__module__ in find_modules():
        within = list(vars(value).values())
    else:
        return
    for each in within:
        yield from walk_values(name, each, seen)


def list_cases(module: ModuleType, path: str) -> Iterator[Case]:
    """Yield the expressions that a module has when it has been imported."""
    for name, value in vars(module).items():
        place = f"{path}: {name}"
        if isinstance(value, re.Pattern):
            yield make_case(place, value, find_methods(path, name))
        else:
            yield from (make_case(place, each) for _, each in walk_values(name, value, set()))


def list_cases_within_functions(path: str) -> Iterator[Case]:
    """Yield the expressions that are written into functions. Raises AssertionError for one that cannot be
    read there, which a constant of the module could be."""
    tree = parse(ROOT / path)
    functions = [
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    calls = {
        node
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr != "escape"
    }
    for call in calls:
        place = f"{path}:{call.lineno}"
        try:
            source = ast.literal_eval(call.args[0])
        except ValueError:
            assert path in MADE, f"{place}: make this expression a constant, so that it is tried"
            continue
        assert isinstance(call.func, ast.Attribute)
        pattern = re.compile(source)
        yield make_case(place, pattern, (USES[call.func.attr],) if call.func.attr in USES else ALL)


@cache
def list_all_cases() -> tuple[Case, ...]:
    """Return every expression of the rooms, each once."""
    cases: list[Case] = []
    for name, file in find_modules().items():
        path = str(file.relative_to(ROOT))
        if "re" not in {node.id for node in ast.walk(parse(file)) if isinstance(node, ast.Name)}:
            continue  # what it imports is tried where it is made
        if not name.endswith("__main__"):
            cases += list_cases(importlib.import_module(name), path)
        cases += list_cases_within_functions(path)
    for path, make in MADE.items():
        cases += [make_case(path, pattern) for _, pattern in walk_values(path, make(), set())]
    return tuple(
        {(each.source, each.is_bytes, each.flags, each.methods): each for each in cases}.values()
    )


@pytest.mark.slow
def test_every_expression_takes_time_in_proportion_to_the_text() -> None:
    cases = list_all_cases()
    assert len(cases) > 100
    assert find_slow(cases) == []


@pytest.mark.slow
def test_a_slow_expression_is_found() -> None:
    slow = [
        r"(a+)+$",
        r"(?s)a*a*b",
        r"x(?:a|a)*y",
        r"(?s)<!--.*?-->",
        r"\s+$",
        rb'"(?:[^"\\]|\\.)*"!',
        r"(?=[^b]*$)a",
    ]
    cases = [make_case(str(source), re.compile(source)) for source in slow]
    fast = make_case("fast", re.compile(r"[a-z]++(?!\w)|\s"), ("fullmatch",))
    assert find_slow([fast, *cases, fast]) == [case.name for case in cases]
