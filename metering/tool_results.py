"""The results of uses of tools: the estimated number of tokens, and a short description of the
problem.

The result of a client's tool comes with the next request of the conversation, that of a tool that
upstream runs with the response itself."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from metering.tool_names import read_name
from wire.block import RESULT, TEXT, Block
from wire.json_reading import clean_text
from wire.request import Message

MAX_PROBLEM_CHARS = 80
FAILED = "failed"  # where no words say what went wrong, or none may be kept
# As conversations/token_rules.toml has them for code, and for images and pages that are not looked into.
BYTES_PER_TOKEN, IMAGE_TOKENS, DOCUMENT_CHARS_PER_TOKEN = 3.0, 1_500, 40.0
_READ_CHARS, _END_CHARS = 500, 200  # of an error; its code may stand at its end
_TAG = re.compile(r"</?[a-z_]{1,40}>|^\s*error:\s*", re.IGNORECASE)
_EXIT = re.compile(
    r"\b(?:exit(?:ed)?(?: with)?(?: code| status)?|return ?code)[ :=]{1,2}(-?\d{1,10})\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{3}")  # what lines of dots and dashes have not
_FAILED_TESTS = re.compile(r"\b([1-9]\d{0,5}) (?:tests? )?failed\b")
_NO_STRING = re.compile(
    r"\b(?:string|old_?str(?:ing)?|old_?text)\b.*\b(?:not found|not appear)"
    r"|no match(?:es)? (?:was |were )?found",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(
    r"\bnot found\b|\bno such (?:file|directory)|\bdoes(?: not|n't) exist\b|\bENOENT\b",
    re.IGNORECASE,
)


class ToolResult(NamedTuple):
    """A result of a tool. ``tokens`` are estimated; ``problem`` is None if the use succeeded."""

    tokens: int
    problem: str | None = None


class UseResult(NamedTuple):
    """The result of the tool use number ``place`` (from 0) in a response.

    ``tool`` is None if the request does not name it."""

    place: int
    tool: str | None
    result: ToolResult


class LastResults(NamedTuple):
    """The results in a request for the tool uses in the last message of the model.

    ``answer`` is the number of that message, None if the request leaves it out, as in a thread."""

    answer: int | None = None
    results: Sequence[UseResult] = ()


NO_RESULTS = LastResults()


def read_result(block: Block) -> ToolResult:
    """Return the tokens and problem of a block that is the result of a tool. Never raises."""
    parts = block.list_parts()
    return ToolResult(round(sum(map(_estimate, parts))), _find_problem(block, parts))


def find_last_results(messages: Sequence[Message]) -> LastResults:
    """Return the results after the last message of the model. Never raises."""
    places = [n for n, message in enumerate(messages) if message.role == "assistant"]
    answer = places[-1] if places else None
    uses = [each for each in messages[answer].blocks if each.is_call] if answer is not None else []
    by_id = {use.call_id: place for place, use in enumerate(uses)}
    behind = messages if answer is None else messages[answer + 1 :]
    results = [each for message in behind for each in message.blocks if each.kind == RESULT]
    found = [
        UseResult(place, _name(uses, place), read_result(each))
        for number, each in enumerate(results)
        if (place := number if answer is None else by_id.get(each.call_id)) is not None
    ]
    return LastResults(answer, found) if found else NO_RESULTS


def without_words(result: ToolResult) -> ToolResult:
    """Return a result without the description of its problem."""
    return result if result.problem is None else result._replace(problem=FAILED)


def describe_error(text: str) -> str:
    """Return a short description of an error from its text."""
    begin = _TAG.sub("", text[:_READ_CHARS]).strip()
    lines = [" ".join(line.split()) for line in begin.split("\n")]
    first = next(filter(_WORD.search, lines), lines[0])
    end = text[-_END_CHARS:]
    code = _EXIT.search(first) or _EXIT.search(end)
    if code is not None:
        return f"exit {code[1]}"
    if _NO_STRING.search(first):
        return "string not found"
    if _NOT_FOUND.search(first):
        return "not found"
    if tests := _FAILED_TESTS.search(end):
        return f"{tests[1]} failed"
    if len(first) > MAX_PROBLEM_CHARS:
        first = first[: MAX_PROBLEM_CHARS - 1].rstrip() + "…"
    return clean_text(first) or FAILED


def _name(uses: Sequence[Block], place: int) -> str | None:
    return read_name(uses[place]).tool if uses else None


def _estimate(part: Block) -> float:
    """Return the estimated number of tokens of a part of a result."""
    if part.kind == TEXT:
        return (len(_write(part.text())) - 2) / BYTES_PER_TOKEN
    if part.kind == "image":
        return IMAGE_TOKENS
    if part.kind == "document" and (data := part.data):
        is_text = part.is_plain_document
        return len(data) / (BYTES_PER_TOKEN if is_text else DOCUMENT_CHARS_PER_TOKEN)
    return len(_write(part.value)) / BYTES_PER_TOKEN


def _write(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # lone surrogates, or nested deeply
        return b'""' if not isinstance(value, str) else value.encode("utf-8", "surrogatepass")


def _find_problem(block: Block, parts: Sequence[Block]) -> str | None:
    for part in parts:
        if part.return_code:
            return f"exit {part.return_code}"[:MAX_PROBLEM_CHARS]
        if block.kind != RESULT and part.kind.endswith("_error"):
            return describe_error(part.error_code)
    if not block.is_error:
        return None
    words = (part.text() for part in parts if part.kind == TEXT)
    return describe_error(next(filter(str.strip, words), ""))
