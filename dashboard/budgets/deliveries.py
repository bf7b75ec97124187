"""Delivery of alerts of budgets and rules: mails to owners, and messages to webhooks.

The recorder writes an alert and its deliveries to ``control.db``. This module sends the deliveries that
are due; each is repeated until it succeeds or is given up (``store.control.deliveries``). All state of a
delivery is in the database, so none is lost by a restart.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from dashboard.budgets.message_bodies import write_body
from dashboard.budgets.webhook_client import WebhookClient, WebhookError
from dashboard.budgets.webhook_messages import make_message
from dashboard.mail.mailer import Mailer, MailError
from dashboard.mail.texts import alert_mail, budget_mail
from dashboard.visitors import ControlPool
from runtime import clock
from runtime.settings import Settings
from store.control import alerts, budgets, deliveries, people
from store.control.alerts import AlertRule
from store.control.budgets import Format, Webhook
from store.control.database import ControlDatabase
from store.control.deliveries import Delivery

logger = logging.getLogger(__name__)

SETTINGS = "/settings/budgets"
POLL_S = 2.0
LISTED = 500
MOST_AT_ONCE = 50  # for each channel: whoever sets a webhook decides how slow it is


class NotWantedError(Exception):
    """Raised if a delivery is not wanted any more. Its target is no longer an owner or a webhook, or no
    mail server is set."""


class _NotAcceptedError(Exception):
    """Raised if an attempt at a delivery failed. ``is_final``: it must not be repeated."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class _Key(NamedTuple):
    """A channel and target of an organisation; messages to it are sent one after the other."""

    channel: str
    organization_id: str
    target: str


@dataclass(frozen=True, slots=True)
class _Note:
    """The result of an attempt at a delivery. Calling it with ``control.db`` writes the result there."""

    delivery: Delivery
    result: Literal["delivered", "failed", "dropped"]
    reason: str = ""
    is_final: bool = False

    def __call__(self, control: ControlDatabase) -> None:
        now = clock.now()
        with control.transaction() as db:
            match self.result:
                case "delivered":
                    deliveries.note_delivered(db, self.delivery, now)
                case "dropped":
                    deliveries.note_dropped(db, self.delivery, self.reason)
                case "failed":
                    deliveries.note_failed(
                        db, self.delivery, self.reason, now, is_final=self.is_final
                    )


@dataclass(frozen=True, slots=True)
class _Recipients:
    """The email addresses of an organisation's owners, its webhook, and the rule of an alert, at present."""

    owners: frozenset[str | None]
    webhook: Webhook | None
    rule: AlertRule | None

    @property
    def url(self) -> str | None:
        """Return the webhook address for this alert: that of its rule, else that of the organisation, else
        None."""
        if self.rule is not None and self.rule.url is not None:
            return self.rule.url
        return None if self.webhook is None else self.webhook.url

    @property
    def format(self) -> Format:
        """Return the format of webhook messages for this alert: that of its rule, else the webhook's."""
        if self.rule is not None:
            return self.rule.format
        return "plain" if self.webhook is None else self.webhook.format


class BudgetDeliveries:
    """Sends the deliveries that are due. Each target of an organisation gets one message at a time, so a
    webhook that does not respond delays only its own messages. At most ``MOST_AT_ONCE`` webhooks are
    called at once; beyond that, others wait until one responds or fails. Mails never wait for webhooks."""

    def __init__(
        self, settings: Settings, pool: ControlPool, mailer: Mailer, client: WebhookClient
    ) -> None:
        self._base_url = settings.base_url
        self._pool = pool
        self._mailer = mailer
        self._client = client
        self._sending: dict[_Key, asyncio.Task[None]] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send the deliveries that are due, every ``POLL_S`` seconds, until the end of the block."""
        task = asyncio.get_running_loop().create_task(self._run())
        try:
            yield
        finally:
            for each in [task, *self._sending.values()]:
                each.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                await self.begin_due()
            except sqlite3.Error as error:  # what is due now is due then, too
                logger.warning("Alerts cannot be read now: %s", error)

    async def begin_due(self) -> None:
        """Start a task for each delivery that is due and whose target has none yet. Raises sqlite3.Error."""
        for delivery in await self._pool.run(_list_due):
            key = _Key(delivery.channel, delivery.alert.organization_id, delivery.target)
            count = sum(each.channel == key.channel for each in self._sending)
            if key in self._sending or count >= MOST_AT_ONCE:
                continue
            self._sending[key] = asyncio.get_running_loop().create_task(
                self._deliver(key, delivery)
            )

    async def _deliver(self, key: _Key, delivery: Delivery) -> None:
        try:
            recipients = await self._pool.run(partial(_find_recipients, delivery))
            if recipients is not None:
                note = await self._try(delivery, recipients)
                await self._pool.run(note)
        except sqlite3.Error as error:
            logger.warning("The delivery of an alert cannot be noted now: %s", error)
        finally:
            del self._sending[key]

    async def _try(self, delivery: Delivery, recipients: _Recipients) -> _Note:
        """Attempt a delivery and return its result, which is not yet written to the database."""
        try:
            if delivery.channel == "mail":
                await self._send_mail(delivery, recipients)
            else:
                await self._send_message(delivery, recipients)
        except NotWantedError as error:
            return _Note(delivery, "dropped", str(error))
        except _NotAcceptedError as error:
            logger.warning("An alert was not delivered (%s): %s", delivery.channel, error)
            return _Note(delivery, "failed", str(error), is_final=error.is_final)
        except Exception:
            # It is tried again like any other; nobody else's delivery waits for it.
            logger.exception("An alert cannot be delivered")
            return _Note(delivery, "failed", "internal error")
        return _Note(delivery, "delivered")

    async def _send_mail(self, delivery: Delivery, recipients: _Recipients) -> None:
        if not self._mailer.can_send:
            raise NotWantedError("no mail server is set (TAXIMETER_SMTP_URL)")
        if delivery.target not in recipients.owners:
            raise NotWantedError("this address is no owner's any more")
        try:
            if isinstance(delivery.alert, alerts.Alert):
                mail = alert_mail(delivery.alert, f"{self._base_url}{delivery.alert.link}")
            else:
                mail = budget_mail(delivery.alert, f"{self._base_url}{SETTINGS}")
            await self._mailer.send(delivery.target, *mail)
        except MailError as error:
            raise _NotAcceptedError(str(error)) from error

    async def _send_message(self, delivery: Delivery, recipients: _Recipients) -> None:
        if recipients.url != delivery.target:
            raise NotWantedError("the webhook was changed or deleted")
        link = delivery.alert.link if isinstance(delivery.alert, alerts.Alert) else SETTINGS
        message = make_message(
            f"msg_{delivery.id}",
            write_body(delivery.alert, recipients.format, f"{self._base_url}{link}"),
            None if recipients.webhook is None else recipients.webhook.secret,
            int(clock.now().timestamp()),
        )
        try:
            await self._client.post(delivery.target, message)
        except WebhookError as error:
            reason = f"{urlsplit(delivery.target).hostname}: {error}"
            raise _NotAcceptedError(reason, is_final=error.is_final) from error


def _list_due(control: ControlDatabase) -> Sequence[Delivery]:
    with control.reading() as db:
        return deliveries.list_due(db, clock.now(), LISTED)


def _find_recipients(delivery: Delivery, control: ControlDatabase) -> _Recipients | None:
    """Return the present recipients of a delivery, or None if it is no longer due."""
    organization_id = delivery.alert.organization_id
    with control.reading() as db:
        if not deliveries.is_due(db, delivery):
            return None
        members = people.list_members_of(db, organization_id)
        return _Recipients(
            owners=frozenset(each.email for each in members if each.role == "owner"),
            webhook=budgets.find_webhook(db, organization_id),
            rule=alerts.find_rule(db, delivery.alert.rule_id)
            if isinstance(delivery.alert, alerts.Alert)
            else None,
        )
