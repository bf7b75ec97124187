import tomllib
from dataclasses import replace
from datetime import date

import pytest

from conversations.cache_rules import CacheRulesError, parse_model_rules, read_own_rules
from tests import ROOT

TODAY = date(2026, 11, 22)


@pytest.mark.parametrize(
    ("model", "minimum", "keeps"),
    [
        ("claude-opus-5", 512, True),
        ("claude-fable-5-1", 512, True),
        ("claude-mythos-5", 512, None),
        ("claude-mythos-5-1", 512, True),
        ("claude-opus-4-8", 1024, True),
        ("claude-sonnet-5", 1024, True),
        ("claude-sonnet-4-6", 1024, True),
        ("claude-sonnet-4-5-20250929", 1024, False),
        ("claude-opus-4-20250514", 1024, False),
        ("claude-opus-4-1-20250805", 1024, False),
        ("claude-opus-4-7", 2048, True),
        ("claude-3-5-haiku-20241022", 2048, False),
        ("claude-mythos-preview", 2048, None),
        ("claude-opus-4-5-20251101", 4096, True),
        ("claude-opus-4-6", 4096, True),
        ("claude-haiku-4-5-20251001", 4096, False),
        ("claude-sonnet-5-5", None, True),
        ("claude-sonnet-4-20250514", None, False),
        ("claude-something-9", None, None),
        (None, None, None),
    ],
)
def test_each_model_has_the_rules_of_its_own(model, minimum, keeps):
    found = read_own_rules().find(model, TODAY)
    assert (found.minimum_tokens, found.keeps_thinking) == (minimum, keeps)


def test_every_entry_names_its_source_and_no_model_has_two():
    text = (ROOT / "conversations" / "cache_rules.toml").read_text()
    tables = tomllib.loads(text)["models"]
    assert all(table["source"] for table in tables)
    names = [name for table in tables for name in table["match"]]
    assert len(names) == len(set(names))


def test_lifetimes_and_lookback_are_in_the_same_table():
    rules = read_own_rules()
    assert rules.lifetimes_s == {"5m": 300, "1h": 3600}
    assert rules.lookback_positions == 20


def test_an_entry_holds_from_its_day_on_and_a_later_one_before_an_earlier():
    text = """
        [[models]]
        match = ["claude-opus-5"]
        starts = 2026-12-01
        minimum_tokens = 4096
    """
    own = read_own_rules()
    rules = replace(own, models=(*own.models, *parse_model_rules(text, "rules.toml")))
    assert rules.find("claude-opus-5", date(2026, 11, 30)).minimum_tokens == 512
    assert rules.find("claude-opus-5", date(2026, 12, 1)).minimum_tokens == 4096


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = 1", "rules.toml: models: must be a list of [[models]] tables"),
        ("models = [", "rules.toml: "),
        ("[[models]]", "rules.toml: models[1]: match: must be a list of names of models"),
        ('[[models]]\nmatch=["a"]\nx=1', "rules.toml: models[1]: x: is not a field of this table"),
        ('[[models]]\nmatch=["a"]\nminimum_tokens=true', "must be a whole number of tokens"),
        ('[[models]]\nmatch=["a"]\nminimum_tokens=-1', "must be a whole number of tokens"),
        ('[[models]]\nmatch=["a"]\nkeeps_thinking=1', "must be true or false"),
        ('[[models]]\nmatch=["a"]\nstarts="x"', "must be a day such as 2026-11-01"),
    ],
)
def test_an_error_names_the_file_and_the_field(text, message):
    with pytest.raises(CacheRulesError) as raised:
        parse_model_rules(text, "rules.toml")
    assert message in str(raised.value)
