"""The docstring of a function begins with a sentence in the imperative: "Return …", "Read …"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT

ROOMS = ("bench", "dashboard", "manage", "metering", "recorder", "runtime", "store")
# What begins a fragment, or a sentence about something else than the function.
FRAGMENTS = re.compile(
    "a|all|an|any|as|at|by|can|does|each|every|exact|for|from|has|how|in|is|it|like|made|more|none"
    "|nothing|of|oldest|on|one|several|so|text|that|the|these|this|those|to|what|when|where|whether"
    "|which|who|whose|with|without"
)
THIRD_PERSON = re.compile(r"[a-z]+[^s]s")  # "Returns", and not "Pass"


def find_functions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and the docstring of each function that has one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            yield f"{path.relative_to(ROOT)}:{node.lineno}", ast.get_docstring(node) or ""


def is_sentence(docstring: str) -> bool:
    paragraph = docstring.partition("\n\n")[0]
    first = re.match(r"[A-Z][a-z]+\b", paragraph)
    if first is None or not re.search(r"[.:]\s|[.:]$", paragraph):
        return False
    word = first[0].lower()
    return not FRAGMENTS.fullmatch(word) and not THIRD_PERSON.fullmatch(word)


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_of_functions_begin_with_a_sentence(room):
    functions = [each for path in (ROOT / room).rglob("*.py") for each in find_functions(path)]
    assert len(functions) > 20
    assert [f"{place}: {text}" for place, text in functions if not is_sentence(text)] == []


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Return the proxy endpoint for a slug, or None.", True),
        ("Process one request. Raises OSError.", True),
        ("Returns the proxy endpoint.", False),
        ("None for what is not ours.", False),
        ("Where to go after a form.", False),
        ("Several reads of one state.", False),
        ("Is there something to price?", False),
        ("``status`` is that of HTTP.", False),
        ("Return the proxy endpoint", False),
    ],
)
def test_a_fragment_is_no_sentence(docstring, expected):
    assert is_sentence(docstring) == expected
