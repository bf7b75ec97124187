"""The small program that the example conversations are about, and what an agent is told about it."""

from typing import Any

SYSTEM = """\
You are a coding agent. You help with software engineering tasks in the repository that you are started in.

# How to work
- Read before you change. Look for the code that a task is about with Grep and Glob, then read the files that matter in full.
- Make the smallest change that solves the problem, in the style of the code around it. Do not reformat lines that you do not change.
- Every repair gets a test that fails without it. Run the test before and after the change.
- Run the whole test suite before you say that you are done. If a test fails that your change did not touch, say so and do not change the test.
- Never commit, push or delete anything unless you are asked to.
- When several things can be looked up independently, use the Task tool to have them looked up at the same time.

# How to answer
- Be brief. Say what was wrong, what you changed, and how you know that it works.
- Name files with their line, as in shelf/reminders.py:24.
- If something is unclear, ask one question instead of guessing.

# Environment
Working directory: /home/ines/shelf
Is a git repository: yes
Platform: linux
Shell: bash

# Project notes (AGENTS.md)
shelf is the lending program of a neighbourhood library: about 4,000 books, 600 members, one desk. It is a command line program with a nightly job.
- `shelf/store.py` reads and writes the loans. It is the only module that knows SQL.
- `shelf/reminders.py` decides who gets a reminder. It is pure: it takes loans and a date, and returns reminders.
- `shelf/nightly.py` runs at 02:00 UTC from a timer and sends the mails.
- `shelf/calendar.py` knows the days on which the desk is closed.
- Dates: a book must be back before the beginning of its due day, in the time zone of the library (Europe/Lisbon). Instants are stored in UTC. Convert at the edges, with `shelf.clock`.
- Tests: `pytest -q`. They use a frozen clock; nothing may read the time of the machine.
- Style: functions of a few lines, type annotations everywhere, no classes where a function is enough.
"""

EXPLORE_SYSTEM = """\
You are a search agent. You are given one question about a repository and answer it by searching and reading. You cannot change anything.

- Start with Grep or Glob and narrow down. Read the parts of files that matter.
- Report what you found with file and line, quote the lines that decide the answer, and stop.
- If the answer is not in the repository, say so. Do not guess.
- Do not propose changes.
Working directory: /home/ines/shelf
"""


def _tool(name: str, words: str, /, **properties: tuple[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "description": words,
        "input_schema": {
            "type": "object",
            "properties": {
                argument: {"type": kind, "description": meaning}
                for argument, (kind, meaning) in properties.items()
            },
            "required": list(properties),
        },
    }


BASH = _tool(
    "Bash",
    "Runs a command in a shell and returns what it prints, standard output and standard error"
    " together, and its exit status. The working directory stays between calls, variables do not. Use"
    " Read, Grep and Glob instead of cat, grep and find: their results are shorter. Commands that run"
    " longer than the timeout are ended. Quote paths that contain spaces.",
    command=("string", "The command to run."),
    description=("string", "What it does, in five to ten words, for the person who watches."),
)
READ = _tool(
    "Read",
    "Reads a file and returns its lines with their numbers. Reads up to 2,000 lines from the"
    " beginning; give offset and limit for a part of a longer file. Reading several files that may"
    " matter at once is better than one after the other.",
    file_path=("string", "The absolute path of the file."),
)
EDIT = _tool(
    "Edit",
    "Replaces text in a file. The file must have been read in this conversation. old_string must"
    " occur exactly once, with its indentation; give more lines around it where it does not. Use it"
    " for changes to existing files, and Write for new ones.",
    file_path=("string", "The absolute path of the file."),
    old_string=("string", "The text to replace."),
    new_string=("string", "The text that replaces it."),
)
WRITE = _tool(
    "Write",
    "Writes a new file, or replaces one that has been read in this conversation. Prefer Edit for"
    " files that exist. Do not write documentation that nobody asked for.",
    file_path=("string", "The absolute path of the file."),
    content=("string", "The whole content."),
)
GREP = _tool(
    "Grep",
    "Searches the content of files with a regular expression, and returns the lines that match with"
    " file and number. Files that git ignores are left out. Give a glob to search some files only.",
    pattern=("string", "A regular expression."),
    glob=("string", "Which files, as in **/*.py."),
)
GLOB = _tool(
    "Glob",
    "Finds files by a pattern such as **/*.py, the most recently changed first.",
    pattern=("string", "The pattern."),
)
TASK = _tool(
    "Task",
    "Starts an agent of its own for one question or task, and returns its report. Agents do not see"
    " this conversation: put all that they need into the prompt. Several in one message run at the"
    " same time. Use it for searches that may need many steps, so that their results do not fill this"
    " conversation.",
    description=("string", "The task in three to five words."),
    prompt=("string", "What the agent is to do, and what it is to report."),
    subagent_type=("string", "Explore to search, general-purpose for everything else."),
)
TODO = _tool(
    "TodoWrite",
    "Keeps the list of steps of a longer task, for yourself and for the person who watches. Mark a"
    " step as in progress before you begin it, and as completed as soon as it is done.",
    todos=("array", "All steps, each with content and status."),
)
ISSUES = _tool(
    "mcp__tracker__search_issues",
    "Searches the issue tracker of the library and returns the issues that match, newest first, with"
    " their state, labels and the first lines of their text.",
    query=("string", "Words to search for."),
    state=("string", "open, closed or all."),
)

MAIN_TOOLS = (BASH, READ, EDIT, WRITE, GREP, GLOB, TASK, TODO)
TOOLS_WITH_TRACKER = (*MAIN_TOOLS, ISSUES)
EXPLORE_TOOLS = (BASH, READ, GREP, GLOB)

REMINDERS = '''\
 1  """Who gets a reminder today. Pure: the caller brings the loans and the instant."""
 2
 3  from collections.abc import Iterable, Iterator
 4  from dataclasses import dataclass
 5  from datetime import date, datetime, timedelta
 6
 7  from shelf.calendar import is_open
 8  from shelf.store import Loan
 9
10  FIRST_REMINDER = timedelta(days=1)
11  REPEAT_EVERY = timedelta(days=7)
12
13
14  @dataclass(frozen=True)
15  class Reminder:
16      member_id: int
17      title: str
18      days_overdue: int
19
20
21  def find_reminders(loans: Iterable[Loan], now: datetime) -> Iterator[Reminder]:
22      """Yield a reminder for each loan that is a day overdue, and every week after that."""
23      for loan in loans:
24          overdue = now.date() - loan.due_at.date()
25          if overdue >= FIRST_REMINDER and (overdue - FIRST_REMINDER) % REPEAT_EVERY == timedelta():
26              yield Reminder(loan.member_id, loan.title, overdue.days)
27
28
29  def next_open_day(day: date) -> date:
30      """Return the first day from this one on that the desk is open."""
31      while not is_open(day):
32          day += timedelta(days=1)
33      return day
'''

STORE = '''\
 1  """Loans in SQLite. The only module that knows SQL; instants are UTC here."""
 2
 3  import sqlite3
 4  from collections.abc import Iterator
 5  from dataclasses import dataclass
 6  from datetime import UTC, date, datetime
 7
 8  from shelf.clock import start_of_day
 9
10
11  @dataclass(frozen=True)
12  class Loan:
13      member_id: int
14      title: str
15      due_at: datetime
16
17
18  def iter_open_loans(db: sqlite3.Connection) -> Iterator[Loan]:
19      """Yield the loans that have not been returned, the oldest first."""
20      rows = db.execute(
21          "select member_id, title, due_at from loans where returned_at is null order by due_at"
22      )
23      for member_id, title, due_at in rows:
24          yield Loan(member_id, title, datetime.fromisoformat(due_at))
25
26
27  def lend(db: sqlite3.Connection, member_id: int, title: str, due: date) -> None:
28      """Record a loan that is due at the beginning of a day, in the library's time zone."""
29      due_at = start_of_day(due).astimezone(UTC)
30      db.execute(
31          "insert into loans (member_id, title, due_at) values (?, ?, ?)",
32          (member_id, title, due_at.isoformat()),
33      )
'''

CLOCK = '''\
 1  """The time zone of the library, in one place."""
 2
 3  from datetime import date, datetime, time
 4  from zoneinfo import ZoneInfo
 5
 6  LIBRARY = ZoneInfo("Europe/Lisbon")
 7
 8
 9  def start_of_day(day: date) -> datetime:
10      """Return the first instant of a day at the library."""
11      return datetime.combine(day, time.min, LIBRARY)
12
13
14  def local_day(instant: datetime) -> date:
15      """Return the day that it is at the library at an instant."""
16      return instant.astimezone(LIBRARY).date()
'''

GIT_LOG = """\
9c41e07 (HEAD -> main) Store the due time of a loan in UTC
 shelf/store.py | 9 +++++----
 tests/test_store.py | 6 ++++--
b7720d3 Leave out days on which the desk is closed
 shelf/calendar.py | 31 +++++++++++++++++++++++++++++++
e0c5a1f Send reminders as one mail for each member
 shelf/nightly.py | 22 +++++++++++++---------"""

GIT_SHOW = """\
commit 9c41e07
    Store the due time of a loan in UTC

--- a/shelf/store.py
+++ b/shelf/store.py
@@ -27,5 +27,5 @@
-    due_at = start_of_day(due)
+    due_at = start_of_day(due).astimezone(UTC)
     db.execute("""

TEST_BEFORE = """\
F                                                                        [100%]
=================================== FAILURES ===================================
____________ test_a_loan_that_is_due_today_in_summer_gets_no_reminder ____________
    def test_a_loan_that_is_due_today_in_summer_gets_no_reminder():
        loan = Loan(7, "Levantado do Chao", start_of_day(date(2026, 7, 7)).astimezone(UTC))
>       assert list(find_reminders([loan], at("2026-07-07T02:00Z"))) == []
E       AssertionError: assert [Reminder(member_id=7, ..., days_overdue=1)] == []
tests/test_reminders.py:41: AssertionError
1 failed in 0.21s"""

TEST_AFTER = """\
.......................................................                  [ 82%]
............                                                             [100%]
67 passed in 1.94s"""
