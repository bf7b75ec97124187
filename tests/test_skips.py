"""Tests that are skipped say why, and how to run them: ``there is no X; Y brings it``."""

import ast
import re
from collections.abc import Iterator

from tests import ROOT

# Their reason is made by ``chromium.why_missing``, which ``tests/browser`` tests.
COMPUTED = {"tests/browser/conftest.py", "tests/browser/test_chromium.py"}
_HOW = re.compile(r"\b(?:run|runs|brings|installs|set|uses)\b")


def find_skips() -> Iterator[tuple[str, ast.Call]]:
    """Yield the file and the call of each skip in the suite."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "skip" in text else ():
            if isinstance(node, ast.Call) and re.fullmatch(
                r"pytest\.(mark\.)?(skip|skipif|importorskip)", ast.unparse(node.func)
            ):
                yield str(path.relative_to(ROOT)), node


def read_reason(skip: ast.Call) -> str | None:
    """Return the reason that is written there, None for one that is computed or left out."""
    is_positional = ast.unparse(skip.func) == "pytest.skip"
    values = [word.value for word in skip.keywords if word.arg == "reason"]
    for value in [*values, *(skip.args[:1] if is_positional else [])]:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    return None


def test_every_skip_says_why_and_how_to_run_the_test():
    reasons = [(path, read_reason(skip)) for path, skip in find_skips()]
    assert {path for path, reason in reasons if reason is None} == COMPUTED
    for path, reason in reasons:
        why, _, how = (reason or "it is computed; run it").partition("; ")
        assert why, path
        assert _HOW.search(how), f"{path}: {reason!r} does not say how to run the test"
