"""Conversations as their files have them, and the calls that they are made of.

A file in ``conversations`` has turns. A turn is what is sent (``user``, and the results of the tools that
the turn before used) and what the model replies (``thinking``, ``text``, ``search``, ``use``). A ``$name`` in
it is replaced by the value that ``slots``, or one of the ``variants``, has for it.
"""

import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from string import Template
from typing import Any
from uuid import UUID

type Block = dict[str, Any]
type Table = dict[str, Any]
type Step = "Call | Sequence[Iterator[Step]]"
"""A call, or what is done at the same time."""

FOLDER = Path(__file__).parent
# What a turn may change for itself and those after it.
_SETTINGS = ("model", "instructions", "tools", "cache_ttl")
_MAX_TOKENS = 32_000
_HINT = "x-claude-code-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that makes calls. An agent sends a session, and marks its prompt for the cache."""

    endpoint: str
    headers: Mapping[str, str]
    query: str = ""
    is_agent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply of the upstream. ``cut_after`` ends a stream after that share of its events, as an upstream
    does that fails in the middle; after ``hold_after`` it stands still until the client leaves. ``refusal``
    is the category in which the model declined."""

    content: Sequence[Block] = ()
    refusal: str | None = None
    cut_after: float | None = None
    hold_after: float | None = None
    status: int = 200
    error_type: str | None = None
    message: str | None = None

    @property
    def stop_reason(self) -> str:
        if self.refusal:
            return "refusal"
        is_tool_call = any(block["type"] == "tool_use" for block in self.content)
        return "tool_use" if is_tool_call else "end_turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, which is sent once for each of its replies.

    After ``leave_after`` events the client ends the connection. ``pause_s`` is the time since the call
    before it in which nobody did anything."""

    program: Program
    headers: Mapping[str, str]
    body: Table
    replies: Sequence[Reply]
    leave_after: int | None = None
    pause_s: float = 0.0

    @property
    def content(self) -> bytes:
        """Return the body as it is sent."""
        return json.dumps(self.body, ensure_ascii=False).encode()

    def headers_of(self, attempt: int) -> dict[str, str]:
        """Return the headers of an attempt, of which the first is 0."""
        return {
            "content-type": "application/json",
            "anthropic-version": "2023-06-01",
            **self.program.headers,
            **self.headers,
            "x-stainless-retry-count": str(attempt),
        }


@cache
def read_table(name: str) -> Table:
    """Return what is in a TOML file beside this module."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())


class Player:
    """Makes the calls of conversations. Ids and the first variant follow from a seed, so that two runs are
    alike."""

    def __init__(self, seed: int) -> None:
        organization = read_table("organization")
        self._library = read_table("library")
        self._programs = {
            name: Program(**table) for name, table in organization["programs"].items()
        }
        self._failures: Mapping[str, Table] = organization["failures"]
        self._random = Random(seed)  # noqa: S311 - nothing here is a secret
        self._seed = seed
        self._played: Counter[str] = Counter()

    def play(self, conversation: str, fails: Sequence[str] = ()) -> Iterator[Step]:
        """Yield the steps of a conversation, in its next variant. ``fails`` are failures before the first
        reply."""
        script = read_table(f"conversations/{conversation}")
        variants = script.get("variants") or [{}]
        slots = {
            **script.get("slots", {}),
            **variants[(self._seed + self._played[conversation]) % len(variants)],
        }
        self._played[conversation] += 1
        script = _fill(script, slots)
        headers = {}
        if self._programs[script["program"]].is_agent:
            headers = {f"{_HINT}session-id": self._make_id()}
            yield self._ask_for_title(script, headers)
            headers |= {f"{_HINT}request-class": "main"}
        yield from self._take_turns(script, slots, headers, fails)

    def fail(self, reply: Reply, name: str) -> Reply:
        """Return this reply as it is with a failure."""
        return replace(reply, **self._failures[name])

    def _ask_for_title(self, script: Table, headers: Mapping[str, str]) -> Call:
        """Return the call for a title, which a small model writes beside the conversation."""
        body = {
            "model": "claude-haiku-4-5",
            "max_tokens": 60,
            "stream": True,
            "system": self._library["instructions"]["title"],
            "messages": [{"role": "user", "content": script["turn"][0]["user"]}],
        }
        return Call(
            program=self._programs[script["program"]],
            headers={**headers, f"{_HINT}request-class": "auxiliary"},
            body=body,
            replies=[Reply(content=[_text(script["title"])])],
        )

    def _take_turns(
        self,
        script: Table,
        slots: Mapping[str, str],
        headers: Mapping[str, str],
        fails: Sequence[str],
    ) -> Iterator[Step]:
        messages: list[Table] = []
        results: list[Block] = []
        program = self._programs[script["program"]]
        for turn in script["turn"]:
            script = script | {name: turn[name] for name in _SETTINGS if name in turn}
            messages = [] if turn.get("compacted") else messages
            if program.is_agent and "user" in turn:
                headers = {**headers, f"{_HINT}prompt-id": self._make_id()}
            agents = {
                use["agent"]: _fill(read_table(f"conversations/{use['agent']}"), slots)
                for use in turn.get("use", ())
                if "agent" in use
            }
            used = [self._use(use, agents) for use in turn.get("use", ())]
            reply = Reply(
                content=[*self._say(turn), *(block for block, _ in used)],
                refusal=turn.get("refusal"),
                hold_after=turn.get("hold_after"),
            )
            asked = {"role": "user", "content": [*results, *self._ask(turn)]}
            is_replied = bool(reply.content or reply.refusal)
            yield Call(
                program=program,
                headers=headers,
                body=self._make_body(script, program, [*messages, asked]),
                replies=[
                    *(self.fail(reply, name) for name in (*fails, *turn.get("fails", ()))),
                    *([reply] if is_replied else []),
                ],
                leave_after=turn.get("leave_after"),
                pause_s=turn.get("pause_s", 0.0),
            )
            fails, results = (), [result for _, result in used]
            if reply.content and reply.hold_after is None:
                messages = [*messages, asked, {"role": "assistant", "content": reply.content}]
            if agents:
                yield [self._start_agent(each, slots, headers) for each in agents.values()]

    def _start_agent(
        self, script: Table, slots: Mapping[str, str], headers: Mapping[str, str]
    ) -> Iterator[Step]:
        named = {
            "agent-id": self._make_id().replace("-", "")[:12],
            "agent-type": "Explore",
            "request-class": "subagent",
        }
        hints = {f"{_HINT}{name}": value for name, value in named.items()}
        return self._take_turns(script, slots, {**headers, **hints}, ())

    def _ask(self, turn: Table) -> Iterator[Block]:
        """Yield the blocks of what a person sends."""
        if "user" in turn:
            yield _text(turn["user"])
        for path in turn.get("attach", ()):
            yield _text(f"{path}:\n{self._read(path)}")

    def _say(self, turn: Table) -> Iterator[Block]:
        """Yield the blocks that the model writes before it uses a tool."""
        if "thinking" in turn:
            signature = "ZGVtbyBzaWduYXR1cmU="
            yield {"type": "thinking", "thinking": turn["thinking"], "signature": signature}
        if "search" in turn:
            search, use_id = turn["search"], f"srvtoolu_{self._make_id()[:8]}"
            found = {name: search[name] for name in ("url", "title")}
            yield {
                "type": "server_tool_use",
                "id": use_id,
                "name": "web_search",
                "input": {"query": search["query"]},
            }
            found |= {
                "type": "web_search_result",
                "encrypted_content": "ZGVtbw==",
                "page_age": None,
            }
            yield {"type": "web_search_tool_result", "tool_use_id": use_id, "content": [found]}
        if "text" in turn:
            yield _text(turn["text"])

    def _use(self, use: Table, agents: Mapping[str, Table]) -> tuple[Block, Block]:
        """Return a tool use and its result. That of a file is the file, that of an agent its last text."""
        arguments, result = use.get("input", {}), use.get("result")
        if "file" in use:
            arguments = {"file_path": f"/home/ines/shelf/{use['file']}"}
            result = _number(self._read(use["file"]))
        elif "agent" in use:
            turns = agents[use["agent"]]["turn"]
            arguments = {**arguments, "prompt": turns[0]["user"], "subagent_type": "Explore"}
            result = turns[-1]["text"]
        use_id = f"toolu_{self._make_id()[:8]}"
        failed = {"is_error": True} if use.get("failed") else {}
        return (
            {"type": "tool_use", "id": use_id, "name": use["name"], "input": arguments},
            {"type": "tool_result", "tool_use_id": use_id, "content": result, **failed},
        )

    def _make_body(self, script: Table, program: Program, messages: Sequence[Table]) -> Table:
        system: Any = self._library["instructions"][script["instructions"]]
        if program.is_agent:
            ttl = {"ttl": script["cache_ttl"]} if "cache_ttl" in script else {}
            marker = {"cache_control": {"type": "ephemeral", **ttl}}
            system = [_text(system) | marker]
            messages = _mark(messages, marker)
        tools = [self._make_tool(name) for name in script.get("tools", ())]
        return {
            "model": script["model"],
            "max_tokens": script.get("max_tokens", _MAX_TOKENS),
            "stream": script.get("stream", True),
            "system": system,
            **({"tools": tools} if tools else {}),
            "messages": messages,
        }

    def _make_tool(self, name: str) -> Table:
        tool = self._library["tools"][name]
        if "type" in tool:  # the upstream's own
            return {"name": name, **tool}
        properties = tool["properties"]
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        return {"name": name, "description": tool["description"], "input_schema": schema}

    def _read(self, path: str) -> str:
        """Return a file of the library, or a table of it with its rows, which are always the same."""
        table = self._library["tables"].get(path)
        if table is None:
            return str(self._library["files"][path])
        draw = Random(path)  # noqa: S311 - nothing here is a secret
        lines = [table["head"]]
        for number in range(1, table["rows"] + 1):
            chosen = {name: draw.choice(values) for name, values in table["choices"].items()}
            lines.append(Template(table["row"]).substitute(chosen, number=number))
        return "\n".join(lines)

    def _make_id(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))


def _mark(messages: Sequence[Table], marker: Table) -> list[Table]:
    """Return the messages with a cache marker at the end of the user's last two."""
    asked = [number for number, each in enumerate(messages) if each["role"] == "user"][-2:]
    marked = list(messages)
    for number in asked:
        *blocks, last = messages[number]["content"]
        marked[number] = {"role": "user", "content": [*blocks, last | marker]}
    return marked


def _fill(value: Any, slots: Mapping[str, str]) -> Any:
    """Return a value of a file with its slots filled in all texts."""
    match value:
        case str():
            return Template(value).safe_substitute(slots)
        case list():
            return [_fill(each, slots) for each in value]
        case dict():
            return {name: _fill(each, slots) for name, each in value.items()}
    return value


def _number(text: str) -> str:
    return "".join(f"{n:6}\t{line}" for n, line in enumerate(text.splitlines(keepends=True), 1))


def _text(words: str) -> Block:
    return {"type": "text", "text": words}
