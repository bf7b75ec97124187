"""The coding agent's session: a fault is found by two subagents, and repaired.

Shown on the way: thinking, tool use, subagents that work at the same time, an overloaded upstream and
its retry, a tool result that is an error, and a cache break when the tracker's tool goes away.
"""

import asyncio
import uuid
from collections.abc import Mapping

from extensions.demo import program
from extensions.demo.blocks import (
    OVERLOADED,
    Message,
    reply,
    text,
    thinking,
    tool_result,
    tool_use,
)
from extensions.demo.client import Agent, DemoClient

MODEL, SIDE_MODEL = "claude-opus-5-5", "claude-haiku-4-5"
TASK = (
    "Last summer some members got their reminder a day too early, others did not. Find out why and"
    " fix it, with a test that fails without the fix."
)
_FIND_CODE = (
    "In the repository /home/ines/shelf, find where it is decided on which day a reminder is sent."
    " Report every place where an instant becomes a date, with file, line and the time zone that it"
    " is converted in."
)
_FIND_CHANGE = (
    "In the git history of /home/ines/shelf, find changes of this year to how due dates are stored or"
    " compared. Report commit, file and the lines that changed."
)
_CODE_REPORT = (
    "Two places turn an instant into a date, both in shelf/reminders.py:24: `now.date()` and"
    " `loan.due_at.date()`. Neither is converted first. `due_at` comes from shelf/store.py:24 in UTC."
    " shelf/clock.py:14 has `local_day`, which converts to the library's time zone; nobody calls it."
)
_CHANGE_REPORT = (
    'One change matters: 9c41e07 "Store the due time of a loan in UTC". In shelf/store.py:29 it'
    " replaced `start_of_day(due)` by `start_of_day(due).astimezone(UTC)`. Before it, `due_at` had the"
    " offset of the library; since then `.date()` of it is a day of UTC."
)
_CAUSE = (
    "In summer the library is an hour ahead of UTC. The beginning of 7 July there is 23:00 on 6 July"
    " in UTC, so due_at.date() gives 6 July and the loan counts as a day overdue on 7 July. In winter"
    ' both are the same day. That fits "some members": those whose loan was due in summer time.'
)
_OLD = "        overdue = now.date() - loan.due_at.date()"
_NEW = "        overdue = local_day(now) - local_day(loan.due_at)"
_TEST = """\
def test_a_loan_that_is_due_today_in_summer_gets_no_reminder():
    loan = Loan(7, "Levantado do Chao", start_of_day(date(2026, 7, 7)).astimezone(UTC))
    assert list(find_reminders([loan], at("2026-07-07T02:00Z"))) == []


"""
_SUMMARY = """\
Fixed. Loans that are due in summer time got their reminder a day too early.

**Cause.** Since 9c41e07 the due time is stored in UTC, but `find_reminders` (shelf/reminders.py:24) took the date of that instant as it is. The beginning of 7 July in Lisbon is still 6 July in UTC, so the loan was one day overdue on its due day. In winter the two days are the same.

**Change.** `find_reminders` compares days at the library, with `local_day` from shelf/clock.py, which was there and unused.

**Test.** `test_a_loan_that_is_due_today_in_summer_gets_no_reminder` fails without the change and passes with it. All 67 tests pass.

Reminders that went out too early are not taken back. If you want, I can list the members who got one."""


async def play(client: DemoClient) -> None:
    """Make the calls of the session. Raises httpx.HTTPError."""
    session = {"x-claude-code-session-id": str(uuid.uuid4())}
    prompt = {"x-claude-code-prompt-id": str(uuid.uuid4())}
    await _name_session(client, session)
    main = Agent(
        client=client,
        model=MODEL,
        system=program.SYSTEM,
        tools=program.TOOLS_WITH_TRACKER,
        headers={**session, **prompt, "x-claude-code-request-class": "main"},
    )
    await main.turn(
        [text(TASK)],
        reply(
            thinking(
                "Some members, last summer. That sounds like time zones. Two things can be looked up at"
                " the same time: where the day is decided, and what changed."
            ),
            text("I will have the code and the history searched at the same time."),
            tool_use(
                "find_code", "Task", description="Find date handling", prompt=_FIND_CODE,
                subagent_type="Explore",
            ),
            tool_use(
                "find_change", "Task", description="Find the change", prompt=_FIND_CHANGE,
                subagent_type="Explore",
            ),
        ),
    )  # fmt: skip
    await asyncio.gather(
        _search_code(_start_explorer(client, {**session, **prompt})),
        _search_history(_start_explorer(client, {**session, **prompt})),
    )
    await _repair(main)


async def _name_session(client: DemoClient, session: Mapping[str, str]) -> None:
    """Ask a small model for a title, as the client does beside the conversation."""
    body = {
        "model": SIDE_MODEL,
        "max_tokens": 60,
        "stream": True,
        "system": "Write a title of three to six words for a coding session that begins like this.",
        "messages": [{"role": "user", "content": TASK}],
    }
    headers = {**session, "x-claude-code-request-class": "auxiliary"}
    await client.call(body, [reply(text("Reminders a day too early"))], headers)


def _start_explorer(client: DemoClient, headers: Mapping[str, str]) -> Agent:
    return Agent(
        client=client,
        model=SIDE_MODEL,
        system=program.EXPLORE_SYSTEM,
        tools=program.EXPLORE_TOOLS,
        headers={
            **headers,
            "x-claude-code-agent-id": uuid.uuid4().hex[:12],
            "x-claude-code-agent-type": "Explore",
            "x-claude-code-request-class": "subagent",
        },
    )


async def _search_code(agent: Agent) -> None:
    await agent.turn(
        [text(_FIND_CODE)],
        reply(
            tool_use("grep_date", "Grep", pattern=r"\.date\(\)|astimezone", glob="shelf/**/*.py")
        ),
    )
    await agent.turn(
        [
            tool_result(
                "grep_date",
                "shelf/clock.py:16:    return instant.astimezone(LIBRARY).date()\n"
                "shelf/reminders.py:24:        overdue = now.date() - loan.due_at.date()\n"
                "shelf/store.py:29:    due_at = start_of_day(due).astimezone(UTC)",
            )
        ],
        reply(
            text("Three lines. I read the files around them."),
            tool_use("read_reminders_a", "Read", file_path="/home/ines/shelf/shelf/reminders.py"),
            tool_use("read_clock_a", "Read", file_path="/home/ines/shelf/shelf/clock.py"),
        ),
    )
    await agent.turn(
        [
            tool_result("read_reminders_a", program.REMINDERS),
            tool_result("read_clock_a", program.CLOCK),
        ],
        reply(text(_CODE_REPORT)),
    )


async def _search_history(agent: Agent) -> None:
    await agent.turn(
        [text(_FIND_CHANGE)],
        reply(
            tool_use(
                "log", "Bash", command="git log --stat -3", description="Show the last commits"
            )
        ),
    )
    await agent.turn(
        [tool_result("log", program.GIT_LOG)],
        reply(
            tool_use(
                "show", "Bash", command="git show 9c41e07", description="Show one commit in full"
            )
        ),
    )
    await agent.turn([tool_result("show", program.GIT_SHOW)], reply(text(_CHANGE_REPORT)))


async def _repair(main: Agent) -> None:
    await main.turn(
        [
            tool_result("find_code", _CODE_REPORT),
            tool_result("find_change", _CHANGE_REPORT),
        ],
        reply(
            thinking(_CAUSE),
            text(
                "The two findings fit together: since 9c41e07 the date is taken in UTC. I read the code"
                " before I change it."
            ),
            tool_use("read_reminders", "Read", file_path="/home/ines/shelf/shelf/reminders.py"),
            tool_use("read_store", "Read", file_path="/home/ines/shelf/shelf/store.py"),
        ),
    )
    await main.turn(
        [
            tool_result("read_reminders", program.REMINDERS),
            tool_result("read_store", program.STORE),
        ],
        OVERLOADED,
        reply(
            text("First the test, which must fail."),
            tool_use(
                "write_test", "Edit", file_path="/home/ines/shelf/tests/test_reminders.py",
                old_string="def test_a_week_later", new_string=f"{_TEST}def test_a_week_later",
            ),
        ),
    )  # fmt: skip
    await main.turn(
        [
            tool_result(
                "write_test",
                "old_string was not found in tests/test_reminders.py. Read the file first.",
                failed=True,
            )
        ],
        reply(
            text("The file begins differently than I assumed. I read its end."),
            tool_use("tail", "Bash", command="tail -5 tests/test_reminders.py", description="Show the end of the tests"),
        ),
    )  # fmt: skip
    await main.turn(
        [tool_result("tail", "def test_the_second_reminder_comes_a_week_after_the_first():\n    ...")],
        reply(
            tool_use(
                "write_test_2", "Edit", file_path="/home/ines/shelf/tests/test_reminders.py",
                old_string="def test_the_second_reminder", new_string=f"{_TEST}def test_the_second_reminder",
            ),
            tool_use("test_1", "Bash", command="pytest -q -k due_today_in_summer", description="Run the new test"),
        ),
    )  # fmt: skip
    # The tracker's server is gone: one tool less, and the whole prompt is read anew.
    main.tools = program.MAIN_TOOLS
    await main.turn(
        [
            tool_result("write_test_2", "The file was changed."),
            tool_result("test_1", program.TEST_BEFORE, failed=True),
        ],
        reply(
            text("It fails for the reason that was expected. Now the repair."),
            tool_use(
                "repair", "Edit", file_path="/home/ines/shelf/shelf/reminders.py",
                old_string=_OLD, new_string=_NEW,
            ),
            tool_use(
                "import", "Edit", file_path="/home/ines/shelf/shelf/reminders.py",
                old_string="from shelf.calendar import is_open\n",
                new_string="from shelf.calendar import is_open\nfrom shelf.clock import local_day\n",
            ),
            tool_use("test_2", "Bash", command="pytest -q", description="Run all tests"),
        ),
    )  # fmt: skip
    await main.turn(
        [
            tool_result("repair", "The file was changed."),
            tool_result("import", "The file was changed."),
            tool_result("test_2", program.TEST_AFTER),
        ],
        Message(content=[text(_SUMMARY)]),
    )
