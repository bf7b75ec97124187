"""``taximeter retention show|set`` and ``taximeter erase``, here or on a remote service."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import datetime
from typing import Any

import click

from manage.api import retention_operations as operations
from manage.api.retention_operations import ErasureState, OpenErasures, Retention
from manage.cli.backend import LocalBackend, given
from manage.cli.console import BackendError, open_control, read_settings
from manage.cli.endpoint_slugs import check_endpoint, suggesting_endpoints
from manage.cli.parameters import OFF, DaysOrOff, Size
from manage.cli.periods import Instant
from manage.cli.program import name_commands
from manage.cli.service_command import Service, service_command
from manage.cli.terminal import format_time
from metering.formats import format_bytes, format_calls, format_count
from runtime import clock
from runtime.locks import LockHeldError, ProcessLock
from runtime.safe_text import terminal_line
from runtime.settings import Settings
from store import erasure_work
from store.control import erasures
from store.control.retention import LIMITS
from store.copies import find_copies
from store.traces import steps
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path

# The type of a limit, and an example of its value.
_OPTIONS: dict[str, tuple[click.ParamType[Any], str]] = {
    "days": (DaysOrOff(), ""),
    "bytes": (Size(or_off=True), ", as in 20GB"),
}
POLL_S = 0.2
PATIENCE_S = 600.0


@click.group()
def retention() -> None:
    """Show and set how long calls and their texts are kept.

    The rules are applied once a day, after 02:00 UTC.

    \b
    Examples:
      taximeter retention show
      taximeter retention set --text-days 30 --call-days 365 --max-size 20GB
    """


@retention.command("show")
@click.option("--endpoint", metavar="SLUG", help="The rule of this endpoint alone.")
@service_command
def show_retention(service: Service, endpoint: str | None) -> None:
    """Show the rules, and what the next run is going to remove.

    \b
    Examples:
      taximeter retention show
      taximeter retention show --endpoint clinic
      taximeter retention show --json | jq .next_run
    """
    with suggesting_endpoints(service, endpoint):
        _show(service, endpoint)


def _limit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each limit of a rule, in their order."""
    for limit in reversed(LIMITS):
        type_, example = _OPTIONS[limit.unit]
        option = click.option(
            limit.option, limit.name, type=type_, help=f"{limit.about}{example}, or off."
        )
        command = option(command)
    return command


@retention.command("set")
@_limit_options
@click.option(
    "--endpoint",
    metavar="SLUG",
    help="Set the rule of this endpoint; off: that of the organisation counts.",
)
@service_command
def set_retention(service: Service, endpoint: str | None, **limits: int | str | None) -> None:
    """Set how long calls and their texts are kept. Limits not given stay as they are.

    \b
    Examples:
      taximeter retention set --text-days 30 --call-days 365
      taximeter retention set --max-size 20GB
      taximeter retention set --endpoint clinic --text-days 1
      taximeter retention set --text-days off
    """
    wanted = given(**limits)
    if not wanted:
        options = ", ".join(limit.option for limit in LIMITS)
        raise click.UsageError(f"choose what to set: {options}")
    for limit in LIMITS:
        if endpoint is not None and limit.name in wanted and not limit.is_for_endpoints:
            raise click.UsageError(
                f"{limit.option} is for the whole organisation: leave out --endpoint"
            )
    changes = {name: None if value == OFF else value for name, value in wanted.items()}
    with suggesting_endpoints(service, endpoint):
        if endpoint is None:
            now = service.call(operations.get_retention)
            rule = now.model_dump(include={limit.name for limit in LIMITS})
            service.call(operations.put_retention, **rule | changes)
        else:
            before = service.call(operations.get_endpoint_retention, endpoint)
            rule = before.model_dump()
            service.call(operations.put_endpoint_retention, endpoint, **rule | changes)
        _show(service, endpoint)


def _show(service: Service, endpoint: str | None) -> None:
    if endpoint is None:
        state = service.call(operations.get_retention)
        service.print(state, "\n".join(_describe_state(state)))
        return
    rule = service.call(operations.get_endpoint_retention, endpoint)
    lines = [
        f"{limit.heading}: {_format_days(getattr(rule, limit.name), 'as the organisation')}"
        for limit in LIMITS
        if limit.is_for_endpoints
    ]
    service.print(rule, "\n".join(lines))


def _describe_state(state: Retention) -> Iterator[str]:
    for limit in LIMITS:
        value = getattr(state, limit.name)
        if limit.unit == "days":
            text = _format_days(value, limit.unset)
        else:
            most = limit.unset if value is None else f"at most {format_bytes(value)}"
            text = f"{most}; it has {format_bytes(state.size_bytes)}"
        yield f"{limit.heading + ':':<10} {text}"
    if state.next_run is not None:
        run = state.next_run
        yield (
            f"Next run:  {format_time(run.at)} UTC. It removes {format_calls(run.entries)} and the"
            f" texts of {format_count(run.texts)} more, about {format_bytes(run.bytes)}."
        )
    if state.last_run is not None:
        last = state.last_run
        yield (
            f"Last run:  {format_time(last.ended_at)} UTC. It removed {format_calls(last.entries)}"
            f" and the texts of {format_count(last.texts)} more, {format_bytes(last.bytes)}."
        )


def _format_days(days: int | None, otherwise: str) -> str:
    return otherwise if days is None else f"{format_count(days)} day{'s' * (days != 1)}"


@click.command()
@click.option("--session", metavar="ID", help="Calls of this session.")
@click.option("--credential", metavar="FINGERPRINT", help="Calls with this upstream credential.")
@click.option("--client", help="Calls of this client, with its version or without.")
@click.option("--endpoint", metavar="SLUG", help="Calls to this proxy endpoint, by slug or id.")
@click.option(
    "--from", "--since", "since", type=Instant(), help="Calls that arrived then or later (UTC)."
)
@click.option("--until", type=Instant(), help="Calls that arrived before (UTC).")
@click.option("--dry-run", is_flag=True, help="Print how many calls these are, and erase nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--status", is_flag=True, help="Print the erasures that have not ended.")
@service_command
def erase(
    service: Service,
    session: str | None,
    credential: str | None,
    client: str | None,
    endpoint: str | None,
    since: datetime | None,
    until: datetime | None,
    dry_run: bool,
    yes: bool,
    status: bool,
) -> None:
    """Erase calls with their texts from all files.

    Calls must match all options given. Hourly and daily totals stay. Calls that are in flight are erased
    when they end. All copies are erased; if the node of a copy is away, when it is back.
    docs/retention.md says what is erased and what is not.

    \b
    Examples:
      taximeter erase --session 7f3c… --dry-run
      taximeter erase --client claude-cli --from 2026-01-01 --until 2026-02-01
      taximeter erase --endpoint clinic --yes
      taximeter erase --status
    """
    fields = given(
        session=session,
        credential=credential,
        client=client,
        endpoint=endpoint,
        since=None if since is None else clock.format_ms(since),
        until=None if until is None else clock.format_ms(until),
    )
    if status:
        if fields:
            raise click.UsageError("--status is of all erasures: leave out what to erase")
        found = service.call(operations.list_erasures)
        service.print(found, "\n".join(_describe_open(found)))
        return
    if not fields:
        raise click.UsageError(
            "choose what to erase: --session, --credential, --client, --endpoint, --from, --until"
        )
    if endpoint is not None:
        # Nodes that are away do it when they are back, whether there are such calls or not.
        with suppress(BackendError):
            check_endpoint(service, endpoint)
    if dry_run:
        counted = service.call(operations.create_erasure, dry_run=True, **fields)
        text = f"{format_calls(counted.entries)} would be erased."
        service.print(counted, text + _list_fingerprints(counted))
        return
    if not yes:
        _confirm(service, fields)
    state = service.call(operations.create_erasure, **fields)
    if isinstance(service.backend, LocalBackend):
        _carry_out_here(read_settings(data_dir=service.data_dir))
    state = _wait(service, state.id or "")
    service.print(state, _describe(state))


def _confirm(service: Service, fields: Mapping[str, object]) -> None:
    try:
        counted = service.call(operations.create_erasure, dry_run=True, **fields)
        question = f"Erase {format_calls(counted.entries)} for good?{_list_fingerprints(counted)}"
    except BackendError:  # the nodes that keep the calls are away, and do it when they are back
        question = "Erase these calls for good, which cannot be counted now?"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Add --yes.")
    click.confirm(question, abort=True, err=True)


def _list_fingerprints(state: ErasureState) -> str:
    """Return a sentence with the fingerprints of the account, empty if there is only one."""
    if len(state.fingerprints) < 2:
        return ""
    return f" They are of one account, by the fingerprints {', '.join(state.fingerprints)}."


def _describe_open(found: OpenErasures) -> Iterator[str]:
    if not found.items:
        yield "There is nothing left to erase."
    for each in found.items:
        head = f"{each.id}: by {each.what}, ordered {format_time(each.ordered_at or '')} UTC."
        yield terminal_line(f"{head} {_describe_progress(each)}")


def _describe_progress(state: ErasureState) -> str:
    if state.copies:
        return " ".join(_describe_copies(state))
    return "Calls in flight are left." if state.erased_at else "It goes on."


def _carry_out_here(settings: Settings) -> None:
    """Carry out the open erasures of this data directory.

    Does nothing if a recorder runs, which does it itself, or if other nodes have copies."""
    if find_copies(settings.data_dir) is not None:
        return
    try:
        lock = ProcessLock(settings.data_dir / "recorder.lock")
    except LockHeldError:
        return
    try:
        with open_control(settings) as control:
            with control.reading() as db:
                orders = erasures.list_open(db)
            for erasure in orders:
                path = trace_path(settings.data_dir, erasure.organization_id)
                with closing(TraceDatabase(path)) as traces, steps.patient(traces.connection):
                    steps.run(erasure_work.carry_out(erasure, control, traces, settings.spool_path))
    finally:
        lock.release()


def _wait(service: Service, erasure_id: str) -> ErasureState:
    """Return the state of an erasure once the recorded calls are erased, or after ``PATIENCE_S``.

    If there are several copies, only copies on live nodes are waited for."""
    ends_at_s = time.monotonic() + PATIENCE_S
    state = service.call(operations.get_erasure, erasure_id)
    while _goes_on(state) and time.monotonic() < ends_at_s:
        time.sleep(POLL_S)
        state = service.call(operations.get_erasure, erasure_id)
    return state


def _goes_on(state: ErasureState) -> bool:
    if not state.copies:
        return state.erased_at is None
    return any(each.erased_at is None and each.is_alive for each in state.copies)


def _describe(state: ErasureState) -> str:
    if state.copies:
        sentences = [*_describe_copies(state), f"`taximeter erase --status` follows {state.id}."]
        return terminal_line(name_commands(" ".join(sentences)))
    if state.erased_at is None:
        return terminal_line(f"The service goes on to erase these calls (erasure {state.id}).")
    text = f"Erased {format_calls(state.entries)}."
    if state.ended_at is None:
        text += " Calls that were in flight are erased when they have been recorded."
    if state.set_aside:
        text += (
            f" {state.set_aside} files in spool/unreadable cannot be read and may have such calls:"
            " look at them, and delete them."
        )
    return text


def _describe_copies(state: ErasureState) -> Iterator[str]:
    """Yield a sentence on each copy: whether it has erased the calls, and whether its node is away."""
    for each in state.copies:
        place = f"the copy {each.copy_name} (node {each.node} at {each.address or 'no address'})"
        if each.erased_at is not None:
            late = "" if each.settled_at else ", and erases what comes late"
            yield f"Erased {format_calls(each.entries)} in {place}{late}."
        elif each.is_alive:
            yield f"Still to be erased in {place}."
        else:
            yield f"Still to be erased in {place}, when that node is back."
    if state.unshipped:
        nodes = ", ".join(state.unshipped)
        yield f"Proxy nodes that may still have such calls: {nodes}."
