"""The files beside this module: the texts of conversations, and their common parts."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from string import Template
from typing import Any

from extensions.demo.calls import Block, Table

FOLDER = Path(__file__).parent
MAX_TOKENS = 32_000


@cache
def read_table(name: str) -> Table:
    """Return the content of a TOML file."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())


def read_script(conversation: str, slots: Mapping[str, str]) -> Table:
    """Return a conversation with each ``$name`` replaced by its value in ``slots``."""
    filled: Table = _fill(read_table(f"conversations/{conversation}"), slots)
    return filled


def read_file(path: str) -> str:
    """Return the text of a program file that conversations are about; it is always the same."""
    library = read_table("library")
    table = library["tables"].get(path)
    if table is None:
        return str(library["files"][path])
    draw = Random(path)  # noqa: S311 - nothing here is a secret
    lines = [table["head"]]
    for number in range(1, table["rows"] + 1):
        chosen = {name: draw.choice(values) for name, values in table["choices"].items()}
        lines.append(Template(table["row"]).substitute(chosen, number=number))
    return "\n".join(lines)


def make_body(settings: Table, messages: Sequence[Table], *, is_marked: bool) -> Table:
    """Return the body of a request with the settings of a conversation.

    ``is_marked``: it has cache markers where Claude Code puts them, at the end of the system prompt
    and of the last two user messages."""
    library = read_table("library")
    system: Any = library["instructions"][settings["instructions"]]
    if is_marked:
        ttl = {"ttl": settings["cache_ttl"]} if "cache_ttl" in settings else {}
        marker = {"cache_control": {"type": "ephemeral", **ttl}}
        system = [text(system) | marker]
        messages = _mark(messages, marker)
    tools = [{"name": name, **library["tools"][name]} for name in settings.get("tools", ())]
    return {
        "model": settings["model"],
        "max_tokens": settings.get("max_tokens", MAX_TOKENS),
        "stream": settings.get("stream", True),
        "system": system,
        **({"tools": tools} if tools else {}),
        "messages": messages,
    }


def text(words: str) -> Block:
    """Return a text block."""
    return {"type": "text", "text": words}


def _mark(messages: Sequence[Table], marker: Table) -> list[Table]:
    asked = [number for number, each in enumerate(messages) if each["role"] == "user"][-2:]
    marked = list(messages)
    for number in asked:
        *blocks, last = messages[number]["content"]
        marked[number] = {"role": "user", "content": [*blocks, last | marker]}
    return marked


def _fill(value: Any, slots: Mapping[str, str]) -> Any:
    match value:
        case str():
            return Template(value).safe_substitute(slots)
        case list():
            return [_fill(each, slots) for each in value]
        case dict():
            return {name: _fill(each, slots) for name, each in value.items()}
    return value
