"""Lines of transcripts as clients of three ages write them, invented."""

import json
from pathlib import Path
from typing import Any

SESSION = "0e3f7d5a-6d2f-4a0e-9f3d-3f6d5b1d7c13"
MODEL = "claude-opus-4-5"
SYSTEM = [{"type": "text", "text": "You help with tariffs."}]
TOOLS = [{"name": "Bash", "description": "Runs a command.", "input_schema": {"type": "object"}}]

type Line = dict[str, Any]


def usage(output: int = 20, **counts: int) -> dict[str, int]:
    return {
        "input_tokens": 10,
        "output_tokens": output,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 1_000,
    } | counts


def assistant(
    message_id: str, *content: Line, output: int = 20, version: str = "2.1.296", **changes: Any
) -> Line:
    """A line of a response; ``message`` in changes is merged into its message."""
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": list(content),
        "stop_reason": "end_turn",
        "usage": usage(output),
    } | changes.pop("message", {})
    return {
        "type": "assistant",
        "uuid": f"{message_id}-{len(content)}",
        "isSidechain": False,
        "timestamp": "2026-03-01T10:00:00.000Z",
        "sessionId": SESSION,
        "version": version,
        "requestId": f"req_{message_id}",
        "cwd": "/home/ana/secret-project",
        "message": message,
    } | changes


def user(text: str, **changes: Any) -> Line:
    message = {"role": "user", "content": text}
    return {"type": "user", "sessionId": SESSION, "message": message} | changes


def said(text: str) -> Line:
    return {"type": "text", "text": text}


def used(command: str) -> Line:
    return {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": command}}


def old_session() -> list[Line]:
    """A client with ``costUSD``: a message whose lines have partial counts, and one of a line."""
    first = [
        assistant("msg_o1", said("Running."), output=1, version="1.0.20", costUSD=0.01),
        assistant("msg_o1", used("make secret"), output=35, version="1.0.20", costUSD=0.01),
    ]
    return [
        user("Mend the tariff"),
        *first,
        assistant("msg_o2", said("Done."), output=7, version="1.0.20", costUSD=0.01),
    ]


def whole_session() -> list[Line]:
    """A client that writes requests down: two, of which the second is based on the first."""
    messages = {
        "hash-1": {"role": "user", "content": [said("Mend the tariff")]},
        "hash-2": {"role": "assistant", "content": [said("Running."), used("make secret")]},
        "hash-3": {"role": "user", "content": [said("Go on")]},
    }
    shape = {"type": "api-request-shape", "shapeHash": "shape-1"}
    blobs = {
        hash_: {"type": "api-request-blob", "hash": hash_, "message": message}
        for hash_, message in messages.items()
    }
    params = {"model": MODEL, "betas": ["beta-1", "beta-2"], "max_tokens": 900}
    request = {"type": "api-request", "shapeHash": "shape-1", "params": params}
    marker = {"path": ["system", 0], "value": {"type": "ephemeral"}}
    return [
        user("Mend the tariff"),
        shape | {"shape": {"system": SYSTEM, "tools": TOOLS}},
        blobs["hash-1"],
        request | {"id": "r1", "keep": 0, "tail": ["hash-1"], "cacheControl": [marker]},
        assistant("msg_w1", said("Running."), version="2.1.329", requestRef="r1"),
        assistant("msg_w1", used("make secret"), version="2.1.329", requestRef="r1"),
        blobs["hash-2"],
        blobs["hash-3"],
        request | {"id": "r2", "base": "r1", "keep": 1, "tail": ["hash-2", "hash-3"]},
        assistant("msg_w2", said("Done."), version="2.1.329", requestRef="r2"),
    ]


def write(path: Path, *lines: Line | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [each if isinstance(each, str) else json.dumps(each) for each in lines]
    path.write_text("\n".join(texts) + "\n")
    return path
