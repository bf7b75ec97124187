"""The operation that reads the limits of subscriptions."""

from manage.api.operation import Context, operation
from runtime import clock
from store.json_models import NoFields
from store.traces.calls.limit_model import Limits
from store.traces.calls.limit_readings import read_states_of


@operation(
    "GET",
    "/limits",
    name="readLimits",
    summary="How much of each window of a subscription is left.",
    reads_calls=True,
)
def list_limits(context: Context[NoFields]) -> Limits:
    return Limits.make(read_states_of(context.trace_path, clock.now()))
