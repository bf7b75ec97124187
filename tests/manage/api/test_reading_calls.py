"""Operations say themselves whether they read recorded calls, which other machines may have."""

from contextlib import suppress
from typing import Any

import pytest

from manage.api.operation import Context
from manage.api.operations import OPERATIONS
from manage.api.validation import validate
from runtime.errors import ControlError
from store.control.database import ControlDatabase
from store.control.management import Management

REQUIRED: dict[str, dict[str, Any]] = {
    "getRecordedUsage": {"from": "2026-01-01", "to": "2026-01-31"},
    "searchCalls": {"q": "words"},
}


class CallsReadError(Exception):
    """Somebody looks for calls in the data directory."""


class DataDirectory:
    """A data directory that says when it is used."""

    def __truediv__(self, name):
        raise CallsReadError(name)


@pytest.fixture
def management(tmp_path):
    with ControlDatabase(tmp_path / "control.db") as control:
        control.set_up()
        management = Management(control, tmp_path)
        caller = management.local_caller()
        for endpoint in (None, "default"):
            management.budgets.put(caller, endpoint, period="day", limit_usd=1, action="warn")
        directory: Any = DataDirectory()
        yield Management(control, directory)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_operation_that_reads_calls_says_so_and_no_other_does(management, operation):
    if operation.method != "GET":
        assert not operation.reads_calls, "what changes something is carried out here"
        return
    context = Context(
        management=management,
        caller=management.local_caller(),
        endpoint_url=lambda slug: slug,
        id="default",
        request=validate(operation.request, REQUIRED.get(operation.name, {})),
    )
    reads = False
    try:
        with suppress(ControlError):
            operation.run(context)
    except CallsReadError:
        reads = True
    assert operation.reads_calls == reads, "declare reads_calls=True"
