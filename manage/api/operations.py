"""The table of all operations, in the order of the OpenAPI document."""

from typing import Any

from manage.api import endpoint_operations, key_operations, usage_operations
from manage.api.operation import Operation

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    *endpoint_operations.OPERATIONS,
    *key_operations.OPERATIONS,
    *usage_operations.OPERATIONS,
)
