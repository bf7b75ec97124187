"""Management of budgets, for the API, the pages and the command line.

It is a part of ``store.control.management``. Every member may read them; only owners change them.
"""

import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from metering.attribution import Part
from metering.budget_periods import Period, Span, find_span
from metering.budget_shares import format_percent
from runtime.errors import InvalidInputError
from runtime.webhook_rule import WebhookRule
from store.control import budgets, deliveries, endpoints
from store.control.audit import Details
from store.control.audited import audited, require_owner
from store.control.budgets import Action, Budget, Format, Webhook
from store.control.database import ControlDatabase
from store.control.deliveries import Delivery
from store.control.endpoints import ProxyEndpoint
from store.control.people import Caller
from store.copies import find_copies
from store.pagination import DEFAULT_LIMIT, Page, read_page
from store.traces.paths import trace_path
from store.traces.sums import spend
from store.traces.sums.spend import Spend

SECRET_BYTES = 32
DELIVERIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStatus:
    """A budget with its current period and the spend in that, None if it cannot be read."""

    budget: Budget
    span: Span
    spend: Spend | None

    @property
    def spent_usd(self) -> float:
        return 0.0 if self.spend is None else self.spend.dollars

    @property
    def percent(self) -> float:
        return 100 * self.spent_usd / self.budget.limit_usd

    @property
    def is_reached(self) -> bool:
        return self.spent_usd >= self.budget.limit_usd

    @property
    def refuses(self) -> bool:
        """Return whether calls are refused because this budget is used up."""
        return self.is_reached and self.budget.action == "refuse"


@dataclass(frozen=True, slots=True)
class BudgetManagement:
    """The operations on budgets. ``endpoint`` is the id or slug of an endpoint, None for the organisation.
    Every method may also raise sqlite3.Error."""

    _control: ControlDatabase
    _data_dir: Path
    _now: Callable[[], datetime]
    _webhook_rule: WebhookRule

    def list(
        self, caller: Caller, cursor: str | None = None, limit: int = DEFAULT_LIMIT
    ) -> Page[Budget]:
        """Return a page of budgets, newest first. Raises InvalidInputError, InvalidCursorError."""
        with self._control.reading() as db:
            read = partial(budgets.list_after, db, caller.organization_id)
            return read_page("budgets", cursor, limit, read)

    def list_all(self, caller: Caller) -> Sequence[BudgetStatus]:
        """Return all budgets with their spend, newest first.

        ``spend`` is None if the traces cannot be read."""
        with self._control.reading() as db:
            found = budgets.list_after(db, caller.organization_id)
        return self.read_statuses(found, tolerant=True)

    def find(self, caller: Caller, endpoint: str) -> BudgetStatus | None:
        """Return the budget of an endpoint for all calls with its spend, or None.

        ``spend`` is None if the traces cannot be read. Raises NotFoundError if there is no such endpoint."""
        with self._control.reading() as db:
            found = endpoints.get(db, caller.organization_id, endpoint)
            budget = budgets.find(db, caller.organization_id, found)
        return None if budget is None else self.read_statuses([budget], tolerant=True)[0]

    def get(self, caller: Caller, endpoint: str | None, of: Part | None = None) -> BudgetStatus:
        """Return the budget for the calls ``of`` a user, project or tag, or for all calls, with its spend.

        If ``of`` is None and the only budget is for a part of the calls, that one is returned. Raises
        NotFoundError."""
        with self._control.reading() as db:
            found = _find_endpoint(db, caller, endpoint)
            of = of or budgets.find_only_part(db, caller.organization_id, found)
            budget = budgets.get(db, caller.organization_id, found, of)
        return self.read_statuses([budget])[0]

    def put(
        self,
        caller: Caller,
        endpoint: str | None,
        *,
        period: Period,
        limit_usd: float,
        action: Action,
        warn_at: Sequence[float] | None = None,
        of: Part | None = None,
    ) -> BudgetStatus:
        """Create or replace a budget. Raises ForbiddenError, NotFoundError, InvalidInputError,
        LimitReachedError."""
        require_owner(caller, "set a budget")
        with audited(self._control, caller) as (db, note):
            found = _find_endpoint(db, caller, endpoint)
            budget = budgets.put(
                db,
                caller.organization_id,
                found,
                period=period,
                limit_usd=limit_usd,
                action=action,
                warn_at=warn_at,
                of=of,
            )
            note(budgets.SET, budget.subject_id, _describe(budget))
        return self.read_statuses([budget], tolerant=True)[0]

    def delete(self, caller: Caller, endpoint: str | None, of: Part | None = None) -> Budget:
        """Delete a budget. Raises ForbiddenError, NotFoundError."""
        require_owner(caller, "delete a budget")
        with audited(self._control, caller) as (db, note):
            found = _find_endpoint(db, caller, endpoint)
            budget = budgets.get(db, caller.organization_id, found, of)
            budgets.delete(db, budget)
            note(budgets.DELETED, budget.subject_id, budgets.name_subject(budget.slug, budget.of))
            return budget

    def read_statuses(
        self, found: Sequence[Budget], *, tolerant: bool = False
    ) -> Sequence[BudgetStatus]:
        """Return budgets of one organisation with their spend.

        With ``tolerant``, ``spend`` is None if the traces cannot be read; otherwise sqlite3.Error is
        raised."""
        now = self._now()
        asked = [(each, find_span(each.period, each.time_zone, now)) for each in found]
        spent: Sequence[Spend | None] = [None] * len(asked)
        try:
            spent = self._read_spend(asked)
        except sqlite3.Error:
            if not tolerant:
                raise
        return [
            BudgetStatus(budget=budget, span=span, spend=each)
            for (budget, span), each in zip(asked, spent, strict=True)
        ]

    def _read_spend(self, asked: Sequence[tuple[Budget, Span]]) -> Sequence[Spend]:
        if not asked:
            return ()
        organization_id = asked[0][0].organization_id
        copies = find_copies(self._data_dir)
        if copies is not None and copies.is_elsewhere(organization_id):
            raise sqlite3.OperationalError("another node keeps the calls of this organisation")
        path = trace_path(self._data_dir, organization_id)
        return spend.read_spends_of(
            path, [(span, each.proxy_endpoint_id, each.of) for each, span in asked]
        )

    # -- the organisation's ---------------------------------------------------------------------------

    def get_time_zone(self, caller: Caller) -> str:
        """Return the name of the time zone in which the organisation's budget periods begin and end."""
        with self._control.reading() as db:
            return budgets.get_time_zone(db, caller.organization_id)

    def set_time_zone(self, caller: Caller, name: str) -> None:
        """Set the time zone of budget periods. Raises ForbiddenError, InvalidInputError."""
        require_owner(caller, "set the time zone")
        with audited(self._control, caller) as (db, note):
            budgets.set_time_zone(db, caller.organization_id, name)
            note(budgets.TIME_ZONE_SET, caller.organization_id, {"name": name})

    def find_webhook(self, caller: Caller) -> Webhook | None:
        """Return the webhook of the organisation, or None. Raises ForbiddenError for a caller who is no
        owner, since the address may be a secret."""
        require_owner(caller, "see the webhook")
        with self._control.reading() as db:
            return budgets.find_webhook(db, caller.organization_id)

    def put_webhook(self, caller: Caller, url: str, format: Format = "plain") -> Webhook:
        """Set the webhook, with a new secret. Raises ForbiddenError, InvalidInputError."""
        require_owner(caller, "set a webhook")
        try:
            self._webhook_rule.check(url)
        except ValueError as error:
            raise InvalidInputError(str(error), "url") from error
        with audited(self._control, caller) as (db, note):
            secret = secrets.token_bytes(SECRET_BYTES)
            webhook = budgets.put_webhook(db, caller.organization_id, url, secret, format)
            note(budgets.WEBHOOK_SET, caller.organization_id, _name_host(webhook))
            return webhook

    def delete_webhook(self, caller: Caller) -> Webhook:
        """Delete the webhook. Raises ForbiddenError, NotFoundError."""
        require_owner(caller, "delete a webhook")
        with audited(self._control, caller) as (db, note):
            webhook = budgets.delete_webhook(db, caller.organization_id)
            note(budgets.WEBHOOK_DELETED, caller.organization_id, _name_host(webhook))
            return webhook

    def list_deliveries(self, caller: Caller) -> Sequence[Delivery]:
        """Return the latest deliveries of alerts, newest first. Raises ForbiddenError."""
        require_owner(caller, "see where alerts were sent")
        with self._control.reading() as db:
            return deliveries.list_latest(db, caller.organization_id, DELIVERIES)


def _find_endpoint(
    db: sqlite3.Connection, caller: Caller, endpoint: str | None
) -> ProxyEndpoint | None:
    return None if endpoint is None else endpoints.get(db, caller.organization_id, endpoint)


def _describe(budget: Budget) -> Details:
    shares = ", ".join(format_percent(100 * each) for each in budget.shares)
    warning = f", warning at {shares}" if budget.warn_at else ""
    return {
        **budgets.name_subject(budget.slug, budget.of),
        "by": f"${budget.limit_usd:,.2f} a {budget.period}, {budget.action}{warning}",
    }


def find_by_subject(statuses: Sequence[BudgetStatus]) -> Mapping[str, BudgetStatus]:
    """Return the budgets that count all calls, by the id of their endpoint or organisation."""
    return {each.budget.subject_id: each for each in statuses if each.budget.of is None}


def _name_host(webhook: Webhook) -> Details:
    """Return the host of a webhook for the activity log: the rest of the address may be a secret."""
    return {"name": urlsplit(webhook.url).hostname}
