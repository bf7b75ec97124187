"""The table of all operations, in the order of the OpenAPI document."""

from itertools import chain
from typing import Any

from manage.api import (
    budget_operations,
    call_operations,
    endpoint_operations,
    key_operations,
    organization_operations,
    retention_operations,
    search_operations,
    usage_operations,
)
from manage.api.operation import Operation
from runtime import extensions

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    *endpoint_operations.OPERATIONS,
    *budget_operations.OPERATIONS,
    *key_operations.OPERATIONS,
    *organization_operations.OPERATIONS,
    *usage_operations.OPERATIONS,
    *call_operations.OPERATIONS,
    *search_operations.OPERATIONS,
    *retention_operations.OPERATIONS,
    *chain(*extensions.call().operations()),
)
