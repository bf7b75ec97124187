"""The other programs of the example organisation: questions at the desk, a report, and letters.

Shown on the way: small calls without a session, a rate limit and its retry, a request that is refused,
a model that declines, calls of a subscription, a stream that is cut, a client that leaves, a web search,
a model without a price, a credential that somebody pasted, and an endpoint that keeps no text.
"""

import uuid
from typing import Any

from extensions.demo import program
from extensions.demo.blocks import RATE_LIMITED, Block, Failure, Message, Reply, reply, text
from extensions.demo.client import Agent, DemoClient

SMALL, MIDDLE, UNPRICED = "claude-haiku-4-5", "claude-sonnet-5", "claude-atlas-preview"
_DESK_SYSTEM = (
    "You answer short questions at the desk of a neighbourhood library. Use the catalogue entries that"
    " come with a question, and nothing else. Answer in one or two sentences."
)
_QUESTIONS = (
    (
        'Entry: "The Summer Book", T. Jansson, 3 copies, 1 on the shelf, section Fiction J.\n'
        "Question: Do you have The Summer Book?",
        "Yes: one copy is on the shelf now, in Fiction under J.",
    ),
    (
        'Entry: "Salt", M. Kurlansky, 1 copy, on loan, due 3 days from now, 2 reservations.\n'
        "Question: When can I have Salt?",
        "It is back in three days, and two people wait before you. I can reserve it for you.",
    ),
    (
        "Entry: reading group, every second Tuesday, 18:30, room 2, no registration.\n"
        "Question: Is there a reading group that I can join?",
        "Yes, every second Tuesday at 18:30 in room 2. You need not register.",
    ),
)
_BACKUP_SETTINGS = (
    "bucket = shelf-backup\naccess_key_id = "
    # In two parts, so that nobody who searches this repository takes it for one that was leaked.
    "AKIA" + "Q4DEMO7LIBRARY2X\nregion = eu-west-1"
)
_SEARCH_RESULT: Block = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_opening",
    "content": [
        {
            "type": "web_search_result",
            "url": "https://example.org/city/holidays",
            "title": "Municipal holidays of this year",
            "encrypted_content": "ZGVtbw==",
            "page_age": None,
        }
    ],
}


async def answer_questions(client: DemoClient) -> None:
    """Make the calls of the program at the desk. Raises httpx.HTTPError."""
    for number, (question, answer) in enumerate(_QUESTIONS):
        failures: list[Reply] = [RATE_LIMITED] if number == 1 else []
        await _ask(client, SMALL, _DESK_SYSTEM, question, *failures, reply(text(answer)))
    await _ask(
        client,
        SMALL,
        _DESK_SYSTEM,
        "Question: Please list every book that you have.",
        Failure(
            status=400,
            error_type="invalid_request_error",
            message="max_tokens: 300000 > 64000, which is the maximum allowed number of output tokens"
            f" for {SMALL}",
        ),
        max_tokens=300_000,
    )
    await _ask(
        client,
        SMALL,
        _DESK_SYSTEM,
        "Question: I forgot the PIN of my card. How do I get into the card server without it?",
        Message(content=[], refusal="cyber"),
    )


async def write_report(client: DemoClient) -> None:
    """Make the calls of the nightly report. Raises httpx.HTTPError."""
    search: Block = {
        "type": "server_tool_use",
        "id": "srvtoolu_opening",
        "name": "web_search",
        "input": {"query": "municipal holidays next month"},
    }
    await _ask(
        client,
        MIDDLE,
        "You write the nightly report of a neighbourhood library. Be brief and exact.",
        "On which days of next month is the desk closed because of a holiday?",
        Message(
            content=(
                search,
                _SEARCH_RESULT,
                text("One day: the municipal holiday on the 13th. The desk is open on all others."),
            ),
            web_searches=1,
        ),
        tools=[{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}],
    )
    report = (
        "Yesterday 212 books were lent and 187 came back. 14 reminders went out, 3 fewer than on the"
        " day before. Most borrowed: The Summer Book (6). The wait at the desk was longest at 17:40,"
        " with 9 people. Two loans have been overdue for more than a month; their members have been"
        " called. Next week the reading group meets on Tuesday."
    )
    question = "Write the report of yesterday: 212 lent, 187 returned, 14 reminders (17 before)."
    system = "You write the nightly report of a neighbourhood library. Be brief and exact."
    cut = Message(content=[text(report)], cut_after=0.5)
    await _ask(client, MIDDLE, system, question, cut, stream=True)
    await _ask(client, MIDDLE, system, question, reply(text(report)), stream=True)
    await _ask(
        client,
        UNPRICED,
        system,
        "Which shelves will need more room next year? Loans by section: fiction 4,120, children"
        " 3,870, travel 410, crafts 980.",
        reply(
            text(
                "Fiction and children, which have 85 % of the loans together. Crafts is the section to"
                " watch: it lends more than twice as much as travel, from fewer books."
            )
        ),
        stream=True,
    )


async def write_letters(client: DemoClient) -> None:
    """Make the calls of the program that writes to members. Raises httpx.HTTPError."""
    await _ask(
        client,
        SMALL,
        "You write short, friendly letters to members of a library.",
        "Remind the member with card 0417 of a book that is two weeks overdue.",
        reply(text("Dear member, one of your books has been waiting to come home for two weeks.")),
    )


async def explain_loans(client: DemoClient) -> None:
    """Make the calls of a colleague who has a question about the program. Raises httpx.HTTPError."""
    agent = Agent(
        client=client,
        model=MIDDLE,
        system=program.SYSTEM,
        tools=program.MAIN_TOOLS,
        headers={
            "x-claude-code-session-id": str(uuid.uuid4()),
            "x-claude-code-request-class": "main",
        },
    )
    await agent.turn(
        [text("How are loans stored, and which parts of the program read them?")],
        reply(
            text(
                "Loans are rows of the table `loans` in SQLite. shelf/store.py is the only module that"
                " reads and writes them; the nightly job gets them from `iter_open_loans` and gives"
                " them to shelf/reminders.py, which decides who gets a reminder."
            )
        ),
    )
    long_answer = (
        "There are three ways to do that. The first is a column `renewed_at` beside `due_at`, which"
        " `lend` leaves empty and a new function `renew` sets. The second is a table of renewals, one"
        " row for each, from which the due day is computed."
    )
    await agent.turn(
        [text("We want members to renew a loan once. Which design would you choose?")],
        Message(content=[text(long_answer)], hold_after=0.5),
        leave_after=6,
    )
    await agent.turn(
        [text("Which design would you choose for renewing a loan once? Two sentences, please.")],
        reply(
            text(
                "A column `renewed_at` in `loans`, null until the loan is renewed: one renewal needs no"
                " table of its own, and the due day stays in `due_at`. Let `renew` refuse a loan whose"
                " `renewed_at` is set or that somebody has reserved."
            )
        ),
    )
    await agent.turn(
        [text(f"The backup of the loans fails with 403 since today. Why?\n\n{_BACKUP_SETTINGS}")],
        reply(
            text(
                "403 means that the bucket knows the key and refuses it: look whether its policy still"
                " allows `s3:PutObject`. You pasted the key itself, so replace it in any case."
            )
        ),
    )


async def _ask(
    client: DemoClient, model: str, system: str, question: str, *replies: Reply, **fields: Any
) -> None:
    body = {
        "model": model,
        "max_tokens": 1024,
        "system": system,
        "messages": [{"role": "user", "content": question}],
        **fields,
    }
    await client.call(body, replies, {})
