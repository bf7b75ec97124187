"""There is a decision for each name of the vendor's SDK, and the code does what was decided."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from addon.errors import Refusal
from addon.upstream_paths import judge, list_billed
from tests import ROOT
from tests.lazily import import_lazily
from tests.wire import sdk_sources
from tests.wire.decisions import (
    DECISIONS,
    OF_ENDPOINTS,
    Kind,
    Row,
    find_differences,
    load_decisions,
)

sdk_fields = import_lazily("tests.wire.sdk_fields")
TABLE = load_decisions()
ROWS = [row for kind in TABLE.values() for row in kind.rows]
FINDERS: dict[str, Callable[[], set[str]]] = {
    "request_field": lambda: {field.path for field in sdk_fields.list_request_fields()},
    "header": sdk_sources.list_headers,
    "response_field": lambda: (
        {field.path for field in sdk_fields.list_response_fields()}
        | sdk_fields.list_stream_events()
    ),
    "endpoint": sdk_sources.list_endpoints,
    "error_code": sdk_sources.list_error_codes,
    "beta": sdk_sources.list_betas,
    "count": sdk_sources.list_counts,
}


@pytest.mark.slow  # to read or import the SDK
@pytest.mark.parametrize("kind", FINDERS)
def test_there_is_a_decision_about_each_name_of_the_sdk(kind):
    found = FINDERS[kind]()
    assert found
    differences = [*find_differences(TABLE[kind], found, sdk_sources.find_version())]
    assert not differences, "\n".join(differences)


def test_the_table_has_the_kinds_that_are_compared_and_words_that_are_explained():
    assert [*TABLE] == [*FINDERS]
    for row in ROWS:
        decisions = OF_ENDPOINTS if row.kind == "endpoint" else DECISIONS
        assert {*row.done, *row.open} <= {*decisions}, row.names
        assert len(row.what) > 10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind}: {row.names[0]}")
def test_a_row_names_the_files_that_do_what_was_decided(row):
    """Each of them has at least one word of the names, or of the code in what is said of them."""
    assert bool(row.read_in) == bool({*row.done} - {"free", "neutral"})
    texts = [*row.names, *re.findall("`(.+?)`", row.what)]
    words = {word for text in texts for word in re.findall(r"[a-z][a-z0-9_]+", text)}
    for path in row.read_in:
        text = (ROOT / path).read_text()
        assert [word for word in words if re.search(rf"\b{word}\b", text)], path


# -- endpoints are treated as the table says ----------------------------------------------------------


def test_endpoints_are_treated_as_was_decided():
    refused = TABLE["endpoint"].list_names("refused by budgets")
    recorded = TABLE["endpoint"].list_names("recorded")
    for endpoint in TABLE["endpoint"].list_names():
        method, path = endpoint.split()
        call = judge(method, path.replace("{id}", "claude-3.5_X:0@1"))
        assert not isinstance(call, Refusal), endpoint
        assert call.is_billed == (endpoint in refused), endpoint
        assert (call.record is not None) == (endpoint in recorded), endpoint


def test_no_other_path_is_refused_by_a_used_up_budget():
    refused = {
        endpoint.replace("{id}", "<id>")
        for endpoint in TABLE["endpoint"].list_names("refused by budgets")
    }
    assert refused == {f"POST {path}" for path in list_billed()}


# -- what the comparison says -------------------------------------------------------------------------


def compare(found: set[str], version: str = "2.1.0", **row: object) -> list[str]:
    fields: dict[str, Any] = {"decision": "neutral", "what": "A feature.", "names": ("a", "b")}
    kind = Kind("beta", "Find out.", (Row(kind="beta", **fields | row),))
    return [*find_differences(kind, found, version)]


def test_what_the_table_has_as_the_sdk_has_it_is_no_difference():
    assert compare({"a", "b"}) == []
    assert compare({"a", "b"}, since="2.1.0", until="2.2.0") == []
    assert compare(set(), since="2.10.0") == []
    assert compare(set(), until="2.1.0") == []
    assert compare(set(), by_hand=True) == []


def test_a_name_that_is_new_is_told_with_what_to_do():
    (said,) = compare({"a", "b", "c", "d"})
    assert said == (
        "Nobody has decided about what is new in anthropic 2.1.0: c, d. Find out. Then add it to a"
        ' [[beta.rows]] of tests/wire/decisions.toml, with since = "2.1.0" if the locked version lacks it.'
    )


def test_a_name_that_has_gone_or_came_early_is_told():
    (said,) = compare({"a"})
    assert said.startswith("anthropic 2.1.0 no longer has: b. Remove it from its [[beta.rows]]")
    assert 'until = "2.1.0"' in said
    for row in ({"since": "2.2.0"}, {"until": "2.0.0"}, {"by_hand": True}):
        assert "anthropic 2.1.0 has: b. Correct `since`" in compare({"b"}, **row)[0]


def test_a_name_with_two_decisions_is_told():
    (said,) = compare({"a", "b"}, names=("a", "b", "a"))
    assert said.startswith("There are several decisions about: a.")
