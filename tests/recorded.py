"""Exchanges that public projects recorded with the real API, for the tests that read or replay them.

The folder is found by TAXIMETER_RECORDED, or beside the repository in shared/recorded.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT

RECORDED = Path(os.environ.get("TAXIMETER_RECORDED") or ROOT.parent / "shared" / "recorded")
_INDEX = RECORDED / "index.json"
CASES: dict[str, dict[str, Any]] = (
    json.loads(_INDEX.read_bytes())["cases"] if _INDEX.exists() else {}
)

needs_recorded = pytest.mark.skipif(
    not CASES, reason="there are no recorded exchanges here; set TAXIMETER_RECORDED to their folder"
)


def load_expected(name: str) -> dict[str, Any]:
    """Return what must be read in the response of a case, and logged."""
    expected: dict[str, Any] = json.loads((RECORDED / f"{name}.expected.json").read_bytes())
    return expected
