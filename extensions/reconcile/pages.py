"""``/reconciliation``: the last run of ``taximeter reconcile`` for the visitor's organisation."""

import logging

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dashboard import rendering
from dashboard.visitors import Visitors
from extensions.reconcile.causes import (
    describe_kind,
    format_cause,
    get_explanation,
    get_title,
)
from extensions.reconcile.result_file import (
    Reconciliation,
    UnreadableError,
    read_reconciliation,
)
from runtime.settings import Settings

MAX_ROWS = 300  # the others are in the output of the command

logger = logging.getLogger(__name__)


class ReconciliationPages:
    """The page of the last reconciliation, which shows the file that the operator's run has written."""

    def __init__(self, settings: Settings, visitors: Visitors) -> None:
        self._settings = settings
        self._visitors = visitors

    def routes(self) -> list[BaseRoute]:
        return [Route("/reconciliation", self.reconciliation_page)]

    async def reconciliation_page(self, request: Request) -> Response:
        visitor = await self._visitors.require(request)
        trouble, found = None, None
        try:
            found = await run_in_threadpool(
                read_reconciliation, self._settings.data_dir, visitor.organization_id
            )
        except (UnreadableError, OSError) as error:
            logger.error("The reconciliation of %s: %s", visitor.organization_id, error)  # noqa: TRY400 - the message is enough
            trouble = "The last result cannot be read. Run taximeter reconcile again."
        return rendering.render(
            "reconciliation.html",
            visitor=visitor,
            trouble=trouble,
            result=found,
            max_rows=MAX_ROWS,
            cause_names=[] if found is None else _list_cause_names(found),
            describe_kind=describe_kind,
            format_cause=format_cause,
            get_title=get_title,
            get_explanation=get_explanation,
        )


def _list_cause_names(result: Reconciliation) -> list[str]:
    """Return the names of all causes in the rows, in the order of their first occurrence."""
    return list(dict.fromkeys(cause.name for row in result.comparison.rows for cause in row.causes))
