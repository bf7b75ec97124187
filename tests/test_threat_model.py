"""The threat model in SECURITY.md: what it names is there."""

import re

from runtime.settings import list_settings
from tests import ROOT

TEXT = (ROOT / "SECURITY.md").read_text()


def test_every_test_that_shows_a_defence_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)`", TEXT)
    assert len(named) > 30
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_every_threat_names_what_shows_its_defence():
    table = TEXT.partition("| threat | defence | shown by |")[2].partition("\n\n")[0]
    rows = [row.strip("|").split("|") for row in table.splitlines()[2:]]
    assert len(rows) > 15
    assert [threat for threat, _, shown in rows if "`" not in shown] == []


def test_settings_that_are_named_exist():
    known = {setting.variable for setting in list_settings()}
    assert set(re.findall(r"`(TAXIMETER_[A-Z_]+)`", TEXT)) - {"TAXIMETER_API_KEY"} <= known
