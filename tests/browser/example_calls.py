"""The calls of the example: those of two weeks at a cab company.

Planted among them: cache breaks (a tool that went away, an expired cache, an edited message), a pause, a
compaction, failures of upstream and of a tool, a stream that was cut, subagents below one another, a session
that no client named, calls that a subscription covers, a model without a price, a credential in a file that
a tool read, and a phrase that came in parts. They are recorded by ``tests.browser.planting``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from tests.browser.planting import Call, Failure
from tests.conversations.sessions import mark_last
from tests.live.messages import Block, text, thinking, tool_use

SESSION = "7d1c2a40-5a0e-4c77-9d0f-2f6b54d1e0aa"
COVERED_SESSION = "30c8f1d6-7f0b-4f7e-a0f5-7f2d94b1c9e2"
SEARCHER, READER = "a1f0c3d29b44", "b72e5d018c66"
TASK = "The test of the night tariff fails since yesterday. Find out why and mend it."
PHRASE = "the quince lantern at the harbour gate"
"""It comes in parts of seven characters, in a response that no later request repeats."""
CREDENTIAL = "AKIA" + "Q2W3E4R5T6Y7U8I9"
OUTPUT = """FAILED tests/test_tariff.py::test_night_tariff_begins_at_ten
E       assert Decimal('7.40') == Decimal('9.10')
1 failed, 41 passed in 0.83s"""
SOURCE = "def is_night(at: time) -> bool:\n    return at > time(22) or at < time(6)\n"
SETTINGS = f'TARIFF_FILE = "tariff.json"\nAWS_ACCESS_KEY_ID = "{CREDENTIAL}"\n'
OPUS, SONNET, HAIKU = "claude-opus-5-5", "claude-sonnet-5", "claude-haiku-4-5"
CODE_CLIENT = "claude-cli/2.1.329 (external, cli)"
type _Ago = Callable[[float], datetime]

_MARKER = {"type": "ephemeral"}
_RULES = "".join(
    f"- Rule {number}: say which ride, which cab and which tariff you mean, and never guess a fare.\n"
    for number in range(1, 121)
)
_LISTING = "".join(
    f"cab/fares.py:{line}: if is_night(at): fare += surcharge({line}, at)\n"
    for line in range(10, 160)
)
_WINDOWS = {
    "unified-status": "allowed",
    "unified-representative-claim": "five_hour",
    "unified-5h-status": "allowed",
    "unified-5h-utilization": "0.34",
    "unified-7d-status": "allowed",
    "unified-7d-utilization": "0.31",
}
_LIMITS = {"requests-limit": "50", "requests-remaining": "42"}


def _tool(name: str, words: str, argument: str) -> Block:
    properties = {argument: {"type": "string"}}
    return {
        "name": name,
        "description": words,
        "input_schema": {"type": "object", "properties": properties},
    }


TOOLS = (
    _tool("Bash", "Runs a command and returns what it prints.", "command"),
    _tool("Read", "Reads a file.", "file_path"),
    _tool("Edit", "Replaces text in a file.", "file_path"),
    _tool("Task", "Starts an agent of its own for one question.", "prompt"),
    _tool("mcp__maps__route", "Finds the way between two places at night. " * 40, "to"),
)


def _user(*blocks: Block) -> Block:
    return {"role": "user", "content": list(blocks)}


def _assistant(*blocks: Block) -> Block:
    return {"role": "assistant", "content": list(blocks)}


def _result(call_id: str, words: str, *, failed: bool = False) -> Block:
    found: Block = {"type": "tool_result", "tool_use_id": call_id, "content": words}
    return found | {"is_error": True} if failed else found


def _ask(model: str, words: str, **fields: Any) -> dict[str, Any]:
    """Return a request without tools and without a cache."""
    return {
        "model": model,
        "max_tokens": 1024,
        "stream": True,
        "system": "You help a cab company at night. Be brief.",
        "messages": [_user(text(words))],
        **fields,
    }


def _continue(
    model: str, messages: Sequence[Block], tools: Sequence[Block] = TOOLS, rules: str = _RULES
) -> dict[str, Any]:
    """Return a request of an agent, with cache breakpoints behind its system prompt and at its end."""
    body = {
        "model": model,
        "max_tokens": 32_000,
        "stream": True,
        "system": [text(f"You help a cab company at night.\n{rules}") | {"cache_control": _MARKER}],
        "tools": list(tools),
        "messages": list(messages),
    }
    return mark_last(body)


class _Conversation:
    """A conversation as its client keeps it: a request has all that was said before."""

    def __init__(self, model: str, first: Call, tools: Sequence[Block] = TOOLS) -> None:
        """Make the calls like ``first``, whose name, time, body and response are replaced."""
        self.model = model
        self.tools = tools
        self.messages: list[Block] = []
        self._first = first

    def say(
        self, name: str, at: datetime, content: Sequence[Block], response: Any, **changes: Any
    ) -> Call:
        """Return the call that sends the next user message. A response becomes the history of the next
        one, and after a failure the message is sent again."""
        messages = [*self.messages, _user(*content)]
        if not isinstance(response, Failure):
            self.messages = [*messages, _assistant(*response)]
        body = _continue(self.model, messages, self.tools)
        return replace(self._first, name=name, at=at, body=body, response=response, **changes)


def make_calls(ends_at: datetime) -> list[Call]:
    """Return all calls, in order of time."""

    def ago(minutes: float) -> datetime:
        return ends_at - timedelta(minutes=minutes)

    calls = [
        *_make_history(ends_at),
        *_make_session(ago),
        *_make_covered(ago),
        *_make_unnamed(ago),
        *_make_single(ago),
    ]
    return sorted(calls, key=lambda call: call.at)


def _make_history(ends_at: datetime) -> Iterator[Call]:
    """Yield two calls of each of the days before yesterday."""
    for days in range(2, 14):
        at = ends_at - timedelta(days=days)
        rides = 900 + 37 * days % 240
        yield Call(
            name=f"report-{days}",
            at=at,
            slug="nightly-reports",
            body=_ask(SONNET, f"Sum up the {rides} rides of a day {days} days ago. " * (9 + days)),
            response=[text(f"{rides} rides, {days} % more than a week before. " * (20 + 3 * days))],
            took_s=11 + days,
            credential="a key of the reports",
        )
        yield Call(
            name=f"desk-{days}",
            at=at + timedelta(minutes=3),
            slug="dispatch-desk",
            body=_ask(HAIKU, f"Which cab for {days} Harbour Road?"),
            response=[text(f"Cab {days + 3} is nearest.")],
            took_s=0.7,
            limits=_LIMITS,
        )


def _make_session(ago: _Ago) -> Iterator[Call]:
    """Yield the calls of the session with all that a session can have."""
    like = Call(
        name="",
        at=ago(0),
        slug="claude-code",
        body={},
        response=[],
        client=CODE_CLIENT,
        credential="the key of Rosa",
        session=SESSION,
        request_class="main",
        prompt="prompt-1",
        limits=_LIMITS,
    )
    yield replace(
        like,
        name="title",
        at=ago(170),
        body=_ask(HAIKU, TASK, max_tokens=60),
        response=[text("Night tariff test")],
        took_s=0.6,
        request_class="auxiliary",
    )
    main = _Conversation(OPUS, like)
    yield main.say(
        "first",
        ago(169),
        [text(TASK)],
        [
            thinking("Two things can be looked up at the same time.", "c2lnbmF0dXJl"),
            text("I have the rule and the test looked up."),
            tool_use("Task", {"prompt": "Find the rule of the tariff."}, block_id="toolu_01"),
            tool_use("Task", {"prompt": "Find its test."}, block_id="toolu_02"),
        ],
        took_s=6.2,
    )
    yield from _make_subagents(ago, like)
    yield main.say(
        "results",
        ago(164),
        [
            _result("toolu_01", f"cab/tariff.py has is_night.\n{_LISTING}"),
            _result("toolu_02", "tests/test_tariff.py"),
        ],
        [
            text("I run the test first."),
            tool_use("Bash", {"command": "pytest -q tests/test_tariff.py"}, block_id="toolu_03"),
        ],
        took_s=5.1,
    )
    failed = [_result("toolu_03", OUTPUT, failed=True)]
    yield main.say(
        "overloaded", ago(163), failed, Failure(status=529, kind="overloaded_error"), took_s=1.1
    )
    yield main.say(
        "failing-tool",
        ago(162),
        failed,
        [
            thinking("The tariff begins at ten; at ten itself it must hold.", "c2lnbmF0dXJl"),
            text("The limit looks suspicious. I read the rule."),
            tool_use("Read", {"file_path": "cab/tariff.py"}, block_id="toolu_04"),
            tool_use("Read", {"file_path": "cab/settings.py"}, block_id="toolu_05"),
        ],
        took_s=9.8,
    )
    main.tools = TOOLS[:-1]  # the server of the maps is gone
    yield main.say(
        "lost-tool",
        ago(160),
        [_result("toolu_04", SOURCE), _result("toolu_05", SETTINGS)],
        [
            text(
                "The night tariff begins at ten, and `at > time(22)` leaves out ten itself."
                " I changed it to `at >= time(22)`; all 42 tests pass."
            )
        ],
        took_s=8.4,
    )
    yield main.say(
        "after-pause",
        ago(110),
        [text("Does that hold for the taxi rank at the harbour as well?")],
        [text("Yes: the rank asks `is_night` too. " * 12)],
        prompt="prompt-2",
        took_s=4.4,
    )
    main.messages[0] = _user(text(TASK.replace("yesterday", "Monday")))
    yield main.say(
        "edited",
        ago(108),
        [text("And for the one at the station?")],
        [text("That one has a tariff of its own, without a night.")],
        prompt="prompt-2",
        took_s=3.9,
    )
    main.messages.clear()
    yield main.say(
        "compacted",
        ago(106),
        [
            text(
                "This session is being continued from a previous conversation that ran out of context."
                " The night tariff was mended; the station has a tariff of its own."
            )
        ],
        [text("Where do I go on?")],
        prompt="prompt-2",
        took_s=3.1,
    )
    yield main.say(
        "phrase",
        ago(104),
        [text("Where is the sign of the rank?")],
        [text(f"It hangs below {PHRASE}, on the left.")],
        prompt="prompt-2",
        took_s=2.8,
    )


def _make_subagents(ago: _Ago, like: Call) -> Iterator[Call]:
    """Yield the calls of two subagents, one of which is the other's, at the same time."""
    searcher = _Conversation(
        HAIKU, replace(like, agent=SEARCHER, request_class="subagent"), TOOLS[:2]
    )
    reader = _Conversation(
        HAIKU,
        replace(like, agent=READER, parent=SEARCHER, request_class="subagent"),
        TOOLS[:2],
    )
    grep = tool_use("Bash", {"command": "grep -rn night cab"}, block_id="toolu_11")
    read = tool_use("Read", {"file_path": "tests/test_tariff.py"}, block_id="toolu_21")
    yield searcher.say("search-1", ago(168), [text("Find the rule of the tariff.")], [grep])
    yield reader.say("read-1", ago(167.5), [text("Find its test.")], [read])
    found = _result("toolu_11", "cab/tariff.py:12: def is_night(at: time) -> bool:")
    yield searcher.say("search-2", ago(167), [found], [text("cab/tariff.py has is_night.")])
    found = _result("toolu_21", "def test_night_tariff_begins_at_ten(): ...")
    yield reader.say("read-2", ago(166), [found], [text("tests/test_tariff.py")])


def _make_covered(ago: _Ago) -> Iterator[Call]:
    """Yield calls of a session that a subscription covers."""
    resets = {
        "unified-5h-reset": f"{ago(-80).timestamp():.0f}",
        "unified-7d-reset": f"{ago(-4 * 24 * 60).timestamp():.0f}",
    }
    conversation = _Conversation(
        SONNET,
        Call(
            name="",
            at=ago(0),
            slug="claude-code",
            body={},
            response=[],
            client=CODE_CLIENT,
            credential="the subscription of Amir",
            credential_kind="token",
            limits=_WINDOWS | resets,
            session=COVERED_SESSION,
            request_class="main",
        ),
    )
    for number, (question, answer) in enumerate(
        (
            ("How are rides stored?", "As rows of `rides`, one for each ride."),
            ("And who reads them?", "The desk, and the nightly report."),
        )
    ):
        at = ago(90 - 2 * number)
        yield conversation.say(f"covered-{number + 1}", at, [text(question)], [text(answer)])


def _make_unnamed(ago: _Ago) -> Iterator[Call]:
    """Yield calls of a program that names no session, each of which continues the one before."""
    like = Call(name="", at=ago(0), slug="dispatch-desk", body={}, response=[], limits=_LIMITS)
    conversation = _Conversation(SONNET, like, ())
    for number, question in enumerate(
        ("A cab for 12 Harbour Road, please.", "With a child seat.", "And a receipt.")
    ):
        at, answer = ago(60 - 2 * number), [text(f"Noted as wish {number + 1}. " * 6)]
        yield conversation.say(f"unnamed-{number + 1}", at, [text(question)], answer)


def _make_single(ago: _Ago) -> Iterator[Call]:
    """Yield calls that belong to no conversation."""
    desk, reports = (partial(Call, slug=slug) for slug in ("dispatch-desk", "nightly-reports"))
    mill = _ask(HAIKU, "Which cab for 9 Mill Lane?")
    yield desk(
        name="limited",
        at=ago(73),
        body=mill,
        response=Failure(status=429, kind="rate_limit_error"),
        took_s=0.2,
        limits={"requests-limit": "50", "requests-remaining": "0", "retry-after": "4"},
    )
    nearest = [text("Cab 17, in four minutes.")]
    yield desk(name="again", at=ago(72), body=mill, response=nearest, took_s=0.8)
    yield desk(
        name="too-many",
        at=ago(50),
        body=_ask(HAIKU, "All of them.", max_tokens=300_000),
        response=Failure(status=400, kind="invalid_request_error"),
        took_s=0.3,
    )
    draft = _ask("cab-research-preview", "Draft the winter plan.")
    plan = [text("A draft of the winter plan: two more cabs, and a later first shift.")]
    yield reports(name="unpriced", at=ago(21), body=draft, response=plan, took_s=17.3)
    gate = _ask(SONNET, "Where does the passenger wait?")
    kiosk = [text("At gate B, in front of the kiosk. " * 20)]
    like = desk(name="whole", at=ago(11), body=gate, response=kiosk, took_s=4.9)
    yield replace(
        like, name="cut", at=ago(12), cut_after=30, took_s=3.1, outcome="upstream_interrupted"
    )
    yield like
    yield replace(
        like, name="left", at=ago(6), cut_after=20, took_s=2.1, outcome="client_disconnected"
    )
    free = _ask(HAIKU, "Who is free?")
    yield desk(name="last", at=ago(2), body=free, response=[text("Cab 4.")], took_s=0.7)
