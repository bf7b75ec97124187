"""Alerts on their way to mailboxes and webhooks."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from dashboard.budgets import deliveries
from dashboard.budgets.deliveries import BudgetDeliveries
from dashboard.budgets.webhook_client import WebhookClient
from dashboard.mail.mailer import MailError
from manage.supervision.workers import Workers
from metering.budget_periods import Span
from runtime import clock
from runtime.clock import now
from runtime.webhook_rule import WebhookRule
from store.control import alerts, budget_alerts, deliveries as queue, people
from store.control.management import Management
from tests.upstream import Gate, Script, Upstream, answer, head


class Mailbox:
    can_send = True

    def __init__(self) -> None:
        self.mails: list[tuple[str, str, str]] = []
        self.fault: Exception | None = None
        self.recipients = asyncio.Queue[str]()

    async def send(self, to, subject, text):
        if self.fault is not None:
            raise self.fault
        self.mails.append((to, subject, text))
        self.recipients.put_nowait(to)


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.fixture
def receiver():
    with Upstream() as receiver:
        receiver.otherwise = answer(200, b"")
        yield receiver


@pytest.fixture
def management(control, settings):
    return Management(control, settings.data_dir, webhook_rule=WebhookRule(allows_loopback=True))


@pytest.fixture
def report(control, management):
    """Reports that so much of an organisation's budget of $10 was spent."""

    def report(someone, spent_usd=10.0, action="warn", hook=None):
        caller = management.find_caller(someone.email)
        if hook is not None:
            management.budgets.put_webhook(caller, hook)
        budget = management.budgets.put(
            caller, None, period="month", limit_usd=10, action=action
        ).budget
        span = Span(now(), now() + timedelta(days=1))
        with control.transaction() as db:
            budget_alerts.make_alert(db, budget, span, spent_usd, now())

    return report


@pytest.fixture
def deliveries_of(settings, mailbox):
    """Makes deliveries with threads for ``control.db``, in the running loop."""

    @asynccontextmanager
    async def run(**options):
        workers = Workers(settings, "test")
        client = WebhookClient(WebhookRule(allows_loopback=True), **options)
        with workers.running():
            yield BudgetDeliveries(settings, workers, mailbox, client)

    return run


async def deliver_due(deliveries):
    """Send what is due, and return when that is done."""
    others = asyncio.all_tasks()
    await deliveries.begin_due()
    started = asyncio.all_tasks() - others
    if started:
        await asyncio.wait(started)


@pytest.fixture
def deliver(deliveries_of):
    """Delivers what is due; with ``times`` more than once."""

    def deliver(times=1):
        async def work():
            async with deliveries_of() as deliveries:
                for _ in range(times):
                    await deliver_due(deliveries)

        asyncio.run(work())

    return deliver


@pytest.fixture
def list_all(control):
    def list_all(someone):
        with control.reading() as db:
            return queue.list_latest(db, someone.organization_id, 100)

    return list_all


def test_owners_get_a_mail_that_says_what_happens_now(ann, cid, report, deliver, mailbox):
    report(ann, 8.25, "refuse")
    report(cid, 10.5, "refuse")
    deliver(times=2)
    by_address = {to: (subject, text) for to, subject, text in mailbox.mails}
    assert len(mailbox.mails) == 2
    subject, text = by_address["ann@example.org"]
    assert subject == "The monthly budget of your organisation is used to 80%"
    assert "$8.25 of $10.00" in text
    assert "At 100% calls are refused until" in text
    assert "http://meter.example:8080/settings/budgets" in text.splitlines()
    subject, text = by_address["cid@example.org"]
    assert subject == "The monthly budget of your organisation is used up"
    assert "Further calls are refused until" in text


def test_a_webhook_gets_a_signed_message_once(ann, report, deliver, receiver, list_all):
    report(ann, hook=f"{receiver.url}/hook")
    deliver(times=2)
    (request,) = receiver.requests
    assert json.loads(request.body)["data"]["organization_id"] == ann.organization_id
    assert request.header("webhook-signature").startswith("v1,")
    (delivery,) = [each for each in list_all(ann) if each.channel == "webhook"]
    assert delivery.delivered_at is not None
    assert (delivery.attempts, delivery.error) == (1, None)
    assert request.header("webhook-id") == f"msg_{delivery.id}"


def test_what_fails_is_noted_and_tried_again_with_the_same_id(
    ann, report, deliver, receiver, list_all, mailbox, monkeypatch, caplog
):
    monkeypatch.setattr(queue, "PAUSES", (timedelta(0), timedelta(hours=1)))
    mailbox.fault = MailError("the server did not respond in time")
    receiver.enqueue(answer(500, b""), answer(503, b""))
    report(ann, hook=f"{receiver.url}/secret-path")
    deliver(times=3)
    assert [each.header("webhook-id") for each in receiver.requests] == [
        receiver.requests[0].header("webhook-id")
    ] * 2
    errors = {each.channel: (each.attempts, each.error) for each in list_all(ann)}
    assert errors == {
        "mail": (2, "the server did not respond in time"),
        "webhook": (2, "127.0.0.1: it responded with 503"),
    }
    assert all(each.due_at is not None for each in list_all(ann))
    assert "secret-path" not in caplog.text


def test_an_error_of_ours_is_a_failed_attempt(ann, report, deliver, list_all, mailbox):
    mailbox.fault = RuntimeError("a mistake")
    report(ann)
    deliver()
    (delivery,) = list_all(ann)
    assert (delivery.attempts, delivery.error) == (1, "internal error")


def test_a_webhook_that_was_changed_or_deleted_gets_nothing(
    ann, cid, report, deliver, receiver, management, list_all
):
    for someone in (ann, cid):
        report(someone, hook=f"{receiver.url}/old")
    management.budgets.put_webhook(management.find_caller(ann.email), f"{receiver.url}/new")
    management.budgets.delete_webhook(management.find_caller(cid.email))
    deliver()
    assert receiver.requests == []
    dropped = [each for who in (ann, cid) for each in list_all(who) if each.channel == "webhook"]
    assert {(each.due_at, each.error) for each in dropped} == {
        (None, "the webhook was changed or deleted")
    }


def test_who_is_no_owner_any_more_gets_no_mail(ann, report, deliver, mailbox, control, list_all):
    report(ann)
    with control.transaction() as db:
        people.remove_member(db, ann.organization_id, ann.user_id)
    deliver()
    assert mailbox.mails == []
    assert [each.error for each in list_all(ann)] == ["this address is no owner's any more"]


def test_without_a_mail_server_a_mail_is_not_tried(ann, report, deliver, mailbox, list_all):
    mailbox.can_send = False
    report(ann)
    deliver()
    (delivery,) = list_all(ann)
    assert (delivery.due_at, delivery.attempts) == (None, 0)
    assert "TAXIMETER_SMTP_URL" in (delivery.error or "")


def test_a_webhook_that_stalls_delays_nobody_else(
    ann, cid, report, deliveries_of, receiver, mailbox
):
    gate = Gate()
    receiver.enqueue(Script((gate, head(200, [("content-length", "0")]))))
    report(ann, hook=f"{receiver.url}/slow")

    async def work():
        async with deliveries_of() as deliveries:
            slow = asyncio.create_task(deliver_due(deliveries))
            await asyncio.to_thread(gate.wait_reached)
            report(cid, hook=f"{receiver.url}/quick")
            quick = asyncio.create_task(deliver_due(deliveries))
            await asyncio.to_thread(receiver.wait_for_requests, 2)
            assert not slow.done()
            gate.open()
            await slow
            await quick

    asyncio.run(work())
    assert {each.target for each in receiver.requests} == {"/slow", "/quick"}
    assert len(mailbox.mails) == 2


def test_mails_do_not_wait_for_webhooks_that_stall(
    ann, cid, report, deliveries_of, receiver, mailbox, monkeypatch
):
    monkeypatch.setattr(deliveries, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(deliveries, "POLL_S", 0.01)
    gate = Gate()
    receiver.enqueue(Script((gate, head(200, [("content-length", "0")]))))
    report(ann, hook=f"{receiver.url}/slow")

    async def work():
        async with deliveries_of(timeout_s=600) as sender, asyncio.timeout(30):
            with sender.running():
                await asyncio.to_thread(gate.wait_reached)
                report(cid)
                while await mailbox.recipients.get() != "cid@example.org":
                    pass
                gate.open()

    asyncio.run(work())
    assert len(receiver.requests) == 1


@pytest.fixture
def fire(control, management):
    """Makes an alert of a rule; with an address it goes there."""

    def fire(someone, url=None, **fields):
        caller = management.find_caller(someone.email)
        channel = "mail" if url is None else "webhook"
        rule = management.alerts.create(
            caller, kind="day_cost", threshold=5, channel=channel, url=url, **fields
        ).rule
        alert = alerts.Alert(
            id=clock.new_id(),
            organization_id=rule.organization_id,
            rule_id=rule.id,
            occasion="2026-01-02",
            kind=rule.kind,
            subject="2026-01-02 costs $6",
            sentence="so far, over $5.",
            link="/calls?since=2026-01-02T00",
            at=clock.format_ms(now()),
        )
        with control.transaction() as db:
            assert alerts.make(db, alert)
        return rule

    return fire


def test_an_alert_is_a_mail_with_the_address_of_what_it_is_about(ann, fire, deliver, mailbox):
    fire(ann)
    deliver(times=2)
    ((to, subject, text),) = mailbox.mails
    assert (to, subject) == ("ann@example.org", "2026-01-02 costs $6 so far, over $5.")
    assert "http://meter.example:8080/calls?since=2026-01-02T00" in text.splitlines()


@pytest.mark.parametrize(
    ("format_", "found"),
    [("plain", "type"), ("slack", "blocks"), ("teams", "attachments")],
)
def test_an_alert_is_a_message_in_the_format_of_its_rule(
    ann, fire, deliver, receiver, management, format_, found
):
    management.budgets.put_webhook(management.find_caller(ann.email), f"{receiver.url}/other")
    fire(ann, f"{receiver.url}/hook", format=format_)
    deliver()
    (request,) = receiver.requests
    assert request.target == "/hook"
    assert found in json.loads(request.body)
    assert request.header("webhook-signature").startswith("v1,")


def test_a_budget_is_told_in_the_format_of_the_webhook(ann, report, deliver, receiver, management):
    caller = management.find_caller(ann.email)
    management.budgets.put_webhook(caller, f"{receiver.url}/hook", "slack")
    report(ann)
    deliver()
    (request,) = receiver.requests
    assert json.loads(request.body)["text"].startswith("The budget of the organisation is used up.")


def test_an_alert_that_fails_is_tried_again_and_one_of_a_deleted_rule_is_not(
    ann, fire, deliver, receiver, management, list_all, monkeypatch
):
    monkeypatch.setattr(queue, "PAUSES", (timedelta(0), timedelta(0)))
    receiver.enqueue(answer(500, b""))
    rule = fire(ann, f"{receiver.url}/hook", format="slack")
    deliver()
    (delivery,) = list_all(ann)
    assert (delivery.attempts, delivery.delivered_at) == (1, None)
    deliver()
    (delivery,) = list_all(ann)
    assert (delivery.attempts, delivery.delivered_at is None) == (2, False)
    ids = {each.header("webhook-id") for each in receiver.requests}
    assert ids == {f"msg_{delivery.id}"}
    management.alerts.delete(management.find_caller(ann.email), rule.id)
    assert list_all(ann) == []
