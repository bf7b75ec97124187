"""Runs of clients, for the API and the command line: for whom and what their calls are made.

It is a part of ``store.control.management``. What the calls of a run cost is read from the entries.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from metering.attribution import NOTHING, Attribution
from runtime.errors import NotFoundError
from runtime.runs import is_run_id
from runtime.setting_values import Upstream
from store.control import endpoints, run_attributes
from store.control.database import ControlDatabase
from store.control.people import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunRun:
    """A run with what is stored of its attributes: nothing for an endpoint that keeps metadata only.

    ``is_first_party``: its calls go to the vendor's own API, as those of a client without a proxy do."""

    run_id: str
    slug: str
    user: str | None
    project: str | None
    tags: Sequence[str]
    is_first_party: bool


class RunManagement:
    """The attributes of runs in ``control.db``. Every method may also raise sqlite3.Error."""

    def __init__(
        self,
        control: ControlDatabase,
        now: Callable[[], datetime],
        find_upstream: Callable[[str | None], Upstream | None],
    ) -> None:
        """Begin and find runs. ``find_upstream`` is as for ``Management``."""
        self._control = control
        self._now = now
        self._find_upstream = find_upstream

    def begin(
        self,
        caller: Caller,
        run_id: str,
        slug: str,
        user: str | None,
        project: str | None,
        tags: Sequence[str],
    ) -> BegunRun:
        """Store for whom and what the calls of a run at a proxy endpoint are made.

        Raises InvalidInputError, NotFoundError for an endpoint that is not there and for what is not a run
        id, ConflictError for a run that has begun."""
        check_run_id(run_id)
        wanted = run_attributes.check(user, project, tags)
        with self._control.transaction() as db:
            endpoint = endpoints.get(db, caller.organization_id, slug)
            kept = NOTHING if endpoint.metadata_only else wanted
            if kept != NOTHING:
                run_attributes.write(db, caller.organization_id, run_id, kept, self._now())
        upstream = self._find_upstream(endpoint.upstream)
        return BegunRun(
            run_id=run_id,
            slug=endpoint.slug,
            user=kept.user,
            project=kept.project,
            tags=kept.tags,
            is_first_party=upstream is not None and upstream.is_first_party,
        )

    def find(self, caller: Caller, run_id: str) -> Attribution:
        """Return the attributes of a run, nothing where it has none."""
        with self._control.reading() as db:
            return run_attributes.find(db, caller.organization_id, run_id) or NOTHING


def check_run_id(run_id: str) -> None:
    """Raise NotFoundError for what is not a run id."""
    if not is_run_id(run_id):
        raise NotFoundError(f"{run_id!r} is not a run id: use 1 to 64 letters, digits and . _ -")
