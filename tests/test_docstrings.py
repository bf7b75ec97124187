"""The first sentence of a docstring says what its function does, or what its class or module is.

That it is there, ends with a period and has no verb in the third person is ruff's (``D`` in
``pyproject.toml``), and so are widths (W505). Here is what those rules do not say: the first line has the
first sentence, and it is no fragment, no question and, of a module, no fact about the world.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import ROOT
from tests.sources import find_sources, find_tests, parse, walk_statements

PACKAGES = sorted(
    path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests"
)
MAX_CHARS = 100
# What begins a fragment, or a sentence about something else than the function.
FRAGMENTS = re.compile(
    "a|all|an|any|as|at|by|can|does|each|every|everything|exact|for|from|has|how|in|is|it|like|made"
    "|more|none|nothing|of|oldest|on|one|only|several|so|strictly|text|that|the|these|this|those|to"
    "|what|when|where|whether|which|who|whose|with|without"
)
QUESTIONS = re.compile(r"(?:How|Is|What|When|Where|Which|Who|With)\b")
# What begins questions and other fragments in docstrings of the tests, also in those of variables.
# To look for them takes a moment, and to parse all tests takes seconds.
NO_SENTENCES = re.compile(
    r'^[ \t]*r?"""'
    r"((?:As|By|Does|Has|How|Is|Like|Of|Those|What|When|Where|Which|Who|With)\b.*?)"
    r'(?:"""|$)',
    re.MULTILINE,
)
# "Requests are limited" is a fact about the world; "Limits on requests" is a module.
MAIN_VERB = re.compile(r"\b(?:are|becomes?|can|gets?|is|may)\b")
SUBORDINATE = re.compile(
    r"\b(?:as|because|before|how|once|so|that|unless|until|what|when|where|whether|which|while|who"
    r"|whose)\b"
)

type Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Docstring(NamedTuple):
    """A docstring, empty where there is none, with the kind and the place of what it is of."""

    path: Path
    line: int
    kind: type[ast.AST]
    text: str


@cache
def read_docstrings(folder: str) -> list[Docstring]:
    """Return those of all modules, classes and functions in a folder, which is parsed once."""
    return [
        Docstring(path, getattr(node, "lineno", 1), type(node), ast.get_docstring(node) or "")
        for path in find_sources(folder)
        for node in walk_statements(parse(path))
        if isinstance(node, Documented.__value__)
    ]


def find_faults(package: str, kind: type[Documented]) -> Iterator[str]:
    """Yield the docstrings of a package's modules, classes or functions that break a rule."""
    for path, line, its_kind, docstring in read_docstrings(package):
        fault = find_fault(docstring, kind) if docstring and its_kind is kind else None
        if fault:
            yield f"{path.relative_to(ROOT)}:{line}: {fault}: {docstring}"


def find_fault(docstring: str, kind: type[Documented]) -> str | None:
    """Return what is wrong with a docstring, or None."""
    first = docstring.splitlines()[0]
    if len(first) > MAX_CHARS:
        return f"its first line has more than {MAX_CHARS} characters"
    sentence = re.sub(r"^``[^`]+``: ", "", first)  # what a page or program is called stands before
    if not re.search(r"[.:](?:\s|$)", sentence):
        return "its first sentence does not end on the first line"
    if QUESTIONS.match(first):
        return "it begins as a question"
    if kind is ast.Module:
        return find_fault_of_module(first)
    if not re.match("[A-Z]", first):
        return "it does not begin with a capital"
    if kind is ast.ClassDef:
        return None
    word = re.split(r"\W", first, maxsplit=1)[0].lower()
    if FRAGMENTS.fullmatch(word):
        return "it does not begin with an imperative"
    return None


def find_fault_of_module(first: str) -> str | None:
    if not re.match("[A-Z]|``", first):
        return "it begins neither with a capital nor with a name in ``"
    clause = re.split(r"[.:](?:\s|$)", first, maxsplit=1)[0]
    if MAIN_VERB.search(SUBORDINATE.split(clause, maxsplit=1)[0]):
        return "it states a fact in place of what the module is"
    return None


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_of_modules_begin_with_what_they_are(package):
    assert list(find_faults(package, ast.Module)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_of_classes_begin_with_what_they_are(package):
    assert list(find_faults(package, ast.ClassDef)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_of_functions_begin_with_a_sentence_in_the_imperative(package):
    assert list(find_faults(package, ast.FunctionDef)) == []
    assert list(find_faults(package, ast.AsyncFunctionDef)) == []


def test_no_docstring_of_the_tests_begins_as_a_fragment():
    """Their names are the sentences there, and a docstring may be a remark, but not a fragment."""
    found = [
        f"{path.relative_to(ROOT)}: {fragment}"
        for path in find_tests()
        for fragment in NO_SENTENCES.findall(path.read_text())
    ]
    assert found == []
