"""Runs of clients, for the API and the command line: the user, project and tags of their calls.

This is a part of ``store.control.management``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from metering.attribution import NOTHING, Attribution
from runtime.errors import NotFoundError
from runtime.runs import is_run_id
from runtime.setting_values import Upstream
from store.control import endpoints, run_attributes
from store.control.database import ControlDatabase
from store.control.people import Caller
from store.spool.unrecorded import count_unrecorded
from store.traces.calls.run_report import RunReport, read_run
from store.traces.paths import trace_path


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunRun:
    """A run with the attributes that were stored: none if the endpoint keeps metadata only.

    ``is_first_party``: its calls go to the vendor's own API, as without a proxy."""

    run_id: str
    slug: str
    user: str | None
    project: str | None
    tags: Sequence[str]
    is_first_party: bool


@dataclass(frozen=True, slots=True)
class RunManagement:
    """The attributes of runs in ``control.db``, and the usage of their calls.

    ``find_upstream`` is as for ``Management``. Every method may also raise sqlite3.Error."""

    _control: ControlDatabase
    _data_dir: Path
    _now: Callable[[], datetime]
    _find_upstream: Callable[[str | None], Upstream | None]

    def begin(
        self,
        caller: Caller,
        run_id: str,
        slug: str,
        user: str | None,
        project: str | None,
        tags: Sequence[str],
    ) -> BegunRun:
        """Store the user, project and tags of the calls that a run makes at a proxy endpoint.

        Raises InvalidInputError, NotFoundError if the endpoint does not exist or ``run_id`` is not a run
        id, and ConflictError if the run has begun before."""
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
        """Return the attributes of a run, empty ones if none are stored."""
        with self._control.reading() as db:
            return run_attributes.find(db, caller.organization_id, run_id) or NOTHING

    def read_usage(self, caller: Caller, run_id: str) -> RunReport:
        """Return the totals of one run in the caller's organisation, zeros if it made no calls.

        Raises NotFoundError if ``run_id`` is not a run id."""
        check_run_id(run_id)
        # Counted before the entries are read: what is recorded in between is then in both, not in
        # neither.
        pending = count_unrecorded(self._data_dir / "spool", caller.organization_id, run_id)
        return read_run(trace_path(self._data_dir, caller.organization_id), run_id, pending)


def check_run_id(run_id: str) -> None:
    """Check the syntax of a run id. Raises NotFoundError."""
    if not is_run_id(run_id):
        raise NotFoundError(f"{run_id!r} is not a run id: use 1 to 64 letters, digits and . _ -")
