"""The calls of a conversation.

A file in ``conversations`` names the program that has it, its model, instructions and tools, and has turns:

    user, attach            text and files that are sent, with the results of the tools of the turn before
    summary                 text before these, which the client puts in place of what was said
    thinking, text, use     what the model replies, with ``blocks`` as upstream sends them
    fails                   failures before the reply, by their names in ``organization.toml``
    refusal, hold_after     see ``Reply``
    leave_after, pause_s    see ``Call``
    compacted               the earlier messages are left out from here on
    model, instructions, tools, cache_ttl       for this turn and those after it

A tool that is used has a ``name`` and ``input``, and the ``result``, which may have ``failed``. Instead of
these, ``file`` is one that is read, and ``agent`` a subagent's conversation, whose last text is the result.

A ``$name`` is replaced by the value that ``slots``, or one of the ``variants``, has for it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from uuid import UUID

from extensions.demo.calls import Block, Call, Program, Reply, Table
from extensions.demo.library import make_body, read_file, read_script, read_table, text

type Step = Call | Sequence[Iterator[Step]]
"""A call, or conversations at the same time."""

# What a turn may change for itself and those after it.
_SETTINGS = ("model", "instructions", "tools", "cache_ttl")
_TITLE = {"model": "claude-haiku-4-5", "instructions": "title", "max_tokens": 60}


class Player:
    """Makes the calls of conversations. Ids and variants follow from a seed, so that two runs are alike."""

    def __init__(self, seed: int) -> None:
        table = read_table("organization")
        self._programs = {name: Program(**each) for name, each in table["programs"].items()}
        self._failures: Mapping[str, Table] = table["failures"]
        self._random = Random(seed)  # noqa: S311 - nothing here is a secret
        self._seed = seed
        self._played: Counter[str] = Counter()

    def play(self, conversation: str, fails: Sequence[str] = ()) -> Iterator[Step]:
        """Yield the steps of a conversation, in its next variant.

        ``fails`` names failures before the first reply."""
        table = read_table(f"conversations/{conversation}")
        variants = table.get("variants", [{}])
        number = self._seed + self._played[conversation]
        self._played[conversation] += 1
        slots = table.get("slots", {}) | variants[number % len(variants)]
        script = read_script(conversation, slots)
        headers: Mapping[str, str] = {}
        if self._programs[script["program"]].is_agent:
            headers = _hint({}, session_id=self._make_id())
            yield self._ask_for_title(script, headers)
            headers = _hint(headers, request_class="main")
        yield from self._take_turns(script, slots, headers, fails)

    def fail(self, reply: Reply, name: str) -> Reply:
        """Return a reply with the failure of this name."""
        return replace(reply, **self._failures[name])

    def _ask_for_title(self, script: Table, headers: Mapping[str, str]) -> Call:
        """Return the call in which a small model writes a title for the conversation."""
        messages = [{"role": "user", "content": script["turn"][0]["user"]}]
        return Call(
            program=self._programs[script["program"]],
            headers=_hint(headers, request_class="auxiliary"),
            body=make_body(_TITLE, messages, is_marked=False),
            replies=[Reply(content=[text(script["title"])])],
        )

    def _take_turns(
        self, script: Table, slots: Table, headers: Mapping[str, str], fails: Sequence[str] = ()
    ) -> Iterator[Step]:
        program = self._programs[script["program"]]
        settings = script
        messages: list[Table] = []
        results: list[Block] = []
        for turn in script["turn"]:
            settings = settings | {name: turn[name] for name in _SETTINGS if name in turn}
            if turn.get("compacted"):
                messages = []
            if program.is_agent and "user" in turn:
                headers = _hint(headers, prompt_id=self._make_id())
            used = [self._use(use, slots) for use in turn.get("use", ())]
            asked = {"role": "user", "content": [*results, *_ask(turn)]}
            reply = Reply(
                content=[*_say(turn), *(block for block, _ in used)],
                refusal=turn.get("refusal"),
                hold_after=turn.get("hold_after"),
            )
            failed = [self.fail(reply, name) for name in (*fails, *turn.get("fails", ()))]
            yield Call(
                program=program,
                headers=headers,
                body=make_body(settings, [*messages, asked], is_marked=program.is_agent),
                replies=[*failed, reply] if reply.content or reply.refusal else failed,
                leave_after=turn.get("leave_after"),
                pause_s=turn.get("pause_s", 0.0),
            )
            fails, results = (), [result for _, result in used]
            if reply.content and reply.hold_after is None:
                messages = [*messages, asked, {"role": "assistant", "content": reply.content}]
            agents = [use["agent"] for use in turn.get("use", ()) if "agent" in use]
            if agents:
                yield [self._start_agent(agent, slots, headers) for agent in agents]

    def _start_agent(
        self, conversation: str, slots: Table, headers: Mapping[str, str]
    ) -> Iterator[Step]:
        agent_id = self._make_id().replace("-", "")[:12]
        headers = _hint(headers, agent_id=agent_id, agent_type="Explore", request_class="subagent")
        return self._take_turns(read_script(conversation, slots), slots, headers)

    def _use(self, use: Table, slots: Table) -> tuple[Block, Block]:
        """Return the blocks of a tool use and its result: a file's text, or the last text of a subagent."""
        arguments, result = use.get("input", {}), use.get("result")
        if "file" in use:
            arguments = {"file_path": f"/home/ines/shelf/{use['file']}"}
            lines = enumerate(read_file(use["file"]).splitlines(keepends=True), 1)
            result = "".join(f"{number:6}\t{line}" for number, line in lines)
        elif "agent" in use:
            turns = read_script(use["agent"], slots)["turn"]
            arguments = {**arguments, "prompt": turns[0]["user"], "subagent_type": "Explore"}
            result = turns[-1]["text"]
        use_id = f"toolu_{self._make_id()[:8]}"
        failed = {"is_error": True} if use.get("failed") else {}
        return (
            {"type": "tool_use", "id": use_id, "name": use["name"], "input": arguments},
            {"type": "tool_result", "tool_use_id": use_id, "content": result, **failed},
        )

    def _make_id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))


def _hint(headers: Mapping[str, str], **hints: str) -> Mapping[str, str]:
    """Return the headers with hints added that Claude Code sends."""
    named = {f"x-claude-code-{name.replace('_', '-')}": value for name, value in hints.items()}
    return {**headers, **named}


def _ask(turn: Table) -> Iterator[Block]:
    """Yield the text blocks of a user message: a summary by the client, and the user's words."""
    yield from (text(turn[name]) for name in ("summary", "user") if name in turn)
    for path in turn.get("attach", ()):
        yield text(f"{path}:\n{read_file(path)}")


def _say(turn: Table) -> Iterator[Block]:
    """Yield the blocks that the model writes before its tool uses."""
    if "thinking" in turn:
        signature = "ZGVtbyBzaWduYXR1cmU="
        yield {"type": "thinking", "thinking": turn["thinking"], "signature": signature}
    yield from turn.get("blocks", ())
    if "text" in turn:
        yield text(turn["text"])
