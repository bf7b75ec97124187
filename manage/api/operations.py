"""The table of all operations, in the order of the OpenAPI document."""

from itertools import chain
from typing import Any

from manage.api import (
    alert_operations,
    annotation_operations,
    budget_operations,
    call_operations,
    credential_operations,
    endpoint_operations,
    key_operations,
    limit_operations,
    object_operations,
    organization_operations,
    retention_operations,
    run_operations,
    search_operations,
    session_operations,
    usage_operations,
)
from manage.api.operation import Operation, list_declared
from runtime import extensions

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    *list_declared(endpoint_operations),
    *list_declared(budget_operations),
    *list_declared(alert_operations),
    *list_declared(key_operations),
    *list_declared(organization_operations),
    *list_declared(credential_operations),
    *list_declared(usage_operations),
    *list_declared(run_operations),
    *list_declared(call_operations),
    *list_declared(session_operations),
    *list_declared(limit_operations),
    *list_declared(object_operations),
    *list_declared(search_operations),
    *list_declared(annotation_operations),
    *list_declared(retention_operations),
    *chain(*extensions.call().operations()),
)
