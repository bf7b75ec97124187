"""The service does what the document of its API says, also when it is called in ways that nobody would."""

from functools import cache
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from dashboard.json_pages import PAGES
from manage.api.openapi import make_document
from manage.api.operations import OPERATIONS
from tests.lazily import import_lazily
from tests.live.organizations.world import World
from tests.upstream import PATIENCE_S

if TYPE_CHECKING:
    import schemathesis
    from schemathesis.specs.openapi import checks
else:
    schemathesis = import_lazily("schemathesis")  # which takes more than a second
    checks = import_lazily("schemathesis.specs.openapi.checks")

EXAMPLES = 3  # of each operation, of values that it takes and of those that it refuses


@cache
def load_document() -> Any:
    """Return the document as schemathesis reads it."""
    return schemathesis.openapi.from_dict(make_document(OPERATIONS, PAGES, "http://127.0.0.1"))


def test_the_document_is_served_to_everybody(world: World) -> None:
    base_url = f"http://{world.service.host}"
    answer = httpx.get(f"{base_url}/api/openapi.json", timeout=PATIENCE_S)
    assert answer.json() == make_document(OPERATIONS, PAGES, base_url)
    assert answer.json()["openapi"] == "3.1.0"


@pytest.mark.parametrize(("method", "path"), [(each.method, each.path) for each in OPERATIONS])
def test_the_service_does_what_its_document_says(world: World, method: str, path: str) -> None:
    modes = schemathesis.GenerationMode
    for kind in (modes.POSITIVE, modes.NEGATIVE):
        call_as_documented(world, method, path, kind)


def call_as_documented(
    world: World, method: str, path: str, kind: "schemathesis.GenerationMode"
) -> None:
    """Make calls of an operation with values of this kind, and compare what comes back with the document."""
    shorter = path.partition("/{id}")[0]
    can_create = any(
        (each.method, each.path) == ("POST", shorter) and "name" in each.request.model_fields
        for each in OPERATIONS
    )

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(case=load_document()[f"/api{path}"][method].as_strategy(generation_mode=kind))
    def call(case: Any) -> None:
        call_and_validate(case, world)
        if "id" in case.path_parameters and can_create:  # once more with something that is there
            made = world.bob.ask("POST", shorter, json={"name": "x"}).json()
            case.path_parameters["id"] = made["id"]
            call_and_validate(case, world)

    call()


@pytest.mark.parametrize("path", [page.path for page in PAGES])
def test_pages_that_are_json_do_what_the_document_says(world: World, path: str) -> None:
    kind = schemathesis.GenerationMode.POSITIVE  # a page ignores parameters that it does not know

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(case=load_document()[path]["GET"].as_strategy(generation_mode=kind))
    def call(case: Any) -> None:
        call_and_validate(case, world)

    call()


def is_without_key(case: Any) -> bool:
    """Return whether a case is wrong because it has no key, perhaps for that reason alone: as it is called,
    it has one."""
    wrong = {
        location.value for location, made in case.meta.components.items() if made.mode.is_negative
    }
    return "header" in wrong


def call_and_validate(case: Any, world: World) -> None:
    """Make a call, and check that the response is one that the document has for it."""
    case.call_and_validate(
        base_url=f"http://{world.service.host}",
        timeout=PATIENCE_S,  # schemathesis has ten seconds, which a machine with other work may exceed
        headers={"Authorization": f"Bearer {world.bob.raw_key}"},
        # What makes a name, a cursor, or two days that go together is said in words, not in a schema.
        # The front door refuses a body in a GET or DELETE before it looks at the address.
        # That each operation and page wants a key is tested without a service.
        excluded_checks=[
            *([checks.negative_data_rejection] if is_without_key(case) else []),
            checks.positive_data_acceptance,
            checks.unsupported_method,
            checks.ignored_auth,
        ],
    )
