import re

import pytest

from dashboard.json_pages import PAGES
from manage.api.openapi import make_document
from manage.api.operations import OPERATIONS


@pytest.fixture(scope="module")
def document():
    return make_document(OPERATIONS, PAGES, "http://meter.example")


def test_every_operation_is_there_once(document):
    described = {
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    }
    of_api = {(o.method, f"/api{o.path}") for o in OPERATIONS}
    assert described == of_api | {("GET", page.path) for page in PAGES}
    names = [*(o.name for o in OPERATIONS), *(page.name for page in PAGES)]
    assert len(set(names)) == len(names)


def test_every_reference_leads_somewhere(document):
    schemas = document["components"]["schemas"]
    for reference in re.findall(r"'#/components/schemas/(\w+)'", str(document)):
        assert reference in schemas


def test_limits_and_defaults_are_those_that_are_checked(document):
    parameters = document["paths"]["/api/proxy-endpoints"]["get"]["parameters"]
    limit = next(p for p in parameters if p["name"] == "limit")["schema"]
    assert limit == {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
    slug = document["components"]["schemas"]["NewEndpoint"]["properties"]["slug"]["anyOf"][0]
    assert (slug["pattern"], slug["maxLength"]) == ("^[a-z0-9]+(?:-[a-z0-9]+)*$", 63)


def test_the_wire_spelling_is_that_of_the_specification(document):
    page = document["components"]["schemas"]["EndpointPage"]
    assert page["required"] == ["items", "nextCursor", "hasMore"]
    names = [p["name"] for p in document["paths"]["/api/usage"]["get"]["parameters"]]
    assert names == ["by", "from", "to"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o.name)
def test_every_operation_says_how_it_can_be_refused(document, operation):
    responses = document["paths"][f"/api{operation.path}"][operation.method.lower()]["responses"]
    assert {"400", "401", "429", "503"} <= responses.keys()
    assert ({"413", "415"} <= responses.keys()) == operation.takes_body
    # Of a budget and of a webhook an organisation may have none. Any fingerprint can be named.
    names_anything = operation.name in ("setCredentialName", "setAgentName")
    may_be_missing = ("{id}" in operation.path and not names_anything) or (
        operation.path in ("/budget", "/budget-webhook") and operation.method != "PUT"
    )
    assert ("404" in responses) == may_be_missing


def test_pages_that_are_json_are_read_with_a_key_or_by_who_is_signed_in(document):
    schemes = document["components"]["securitySchemes"]
    for page in PAGES:
        described = document["paths"][page.path]["get"]
        assert [*map(list, described["security"])] == [["serviceApiKey"], ["signedIn"]]
        assert {"serviceApiKey", "signedIn"} <= schemes.keys()
        assert {"200", "400", "401", "429", "503"} <= described["responses"].keys()
        assert ("404" in described["responses"]) == ("{session_id}" in page.path)
