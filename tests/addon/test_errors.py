import ast
import inspect
import re

from addon import errors
from tests import ROOT


def find_codes():
    """The codes in the source, which are literals, with their status and type where that is one too."""
    for call in ast.walk(ast.parse(inspect.getsource(errors))):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Refusal":
            status, code = (getattr(arg, "value", None) for arg in call.args[:2])
            special = [getattr(arg, "value", errors.OVERLOADED) for arg in call.args[4:5]]
            refusal = errors.Refusal(status or 0, str(code), "", (), *special)
            yield code, status, refusal.error_type


def test_every_code_is_described_with_its_status_and_type():
    text = (ROOT / "docs" / "errors.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.+) \|$", text, re.MULTILINE)
    described = {code: (status, error_type) for code, status, error_type, _ in rows}
    codes = list(find_codes())
    assert len(codes) > 10
    assert set(described) == {code for code, _, _ in codes}
    for code, status, error_type in codes:
        if status is not None:
            assert described[code] == (str(status), f"`{error_type}`"), code
