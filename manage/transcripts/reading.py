"""Reading transcripts twice: first to choose a copy of each message, then to read the chosen ones."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from manage.transcripts.choice import Choice
from manage.transcripts.files import iter_lines
from manage.transcripts.requests import Rebuilt, Requests
from metering.transcripts import Message, read_message, read_prompt

# Messages whose lines may still come: those of parallel uses of tools stand between one another.
MAX_OPEN = 16
_WANTED = (b'"assistant"', b'"api-request', b'"user"')

type Show = Callable[[int], None]


class Found(NamedTuple):
    """A chosen message, and its request, None if it is not wanted or not known."""

    message: Message
    request: Rebuilt | None


@dataclass(slots=True)
class Transcripts:
    """The transcripts in ``files``.

    ``left_out`` counts lines and messages that are not imported, by reason, and ``recorded`` counts
    messages that are recorded calls already. ``show`` is called with the number of bytes read."""

    files: Sequence[Path]
    choice: Choice
    left_out: Counter[str]
    show: Show
    recorded: int = 0
    _last_counted: str = field(default="", init=False)

    def scan(self) -> None:
        """Offer every message to ``choice``. Files that cannot be read are skipped and counted."""
        for number, path in enumerate(self.files):
            try:
                self._scan_file(number, path)
            except OSError:
                self.left_out["unreadable_file"] += 1

    def _scan_file(self, number: int, path: Path) -> None:
        with path.open("rb") as file:
            for line in iter_lines(file):
                self.show(len(line.text or b""))
                if line.text is None:
                    self.left_out["too_long"] += 1
                    continue
                document = _parse(line.text)
                if document is None:
                    self.left_out["unreadable"] += 1
                    continue
                found = read_message(document)
                if isinstance(found, Message):
                    self.choice.offer(found, number)
                elif found is not None:
                    self.left_out[found] += 1

    def read(self, *, with_text: bool) -> Iterator[Found]:
        """Yield each chosen message that is not recorded, with its request if ``with_text``."""
        for number, path in enumerate(self.files):
            try:
                yield from self._read_file(number, path, with_text=with_text)
            except OSError:  # it was counted above, or went meanwhile
                continue

    def _read_file(self, number: int, path: Path, *, with_text: bool) -> Iterator[Found]:
        pending: OrderedDict[str, Message] = OrderedDict()
        prompts: dict[str | None, str] = {}
        with path.open("rb") as file, path.open("rb") as again:
            requests = Requests(again)
            for line in iter_lines(file):
                self.show(len(line.text or b""))
                if line.text is None or not any(each in line.text for each in _WANTED):
                    continue
                document = _parse(line.text)
                if document is None:
                    continue
                if with_text:
                    requests.note(document, line.offset)
                    if prompt := read_prompt(document):
                        prompts[document.get("agentId")] = prompt
                message = read_message(document)
                if isinstance(message, Message) and self._is_taken(message, number, pending):
                    if with_text:
                        message.prompt = prompts.get(document.get("agentId"))
                    _merge(pending, message)
                while len(pending) > MAX_OPEN:
                    yield _close(pending.popitem(last=False)[1], requests)
            for message in pending.values():
                yield _close(message, requests)

    def _is_taken(self, message: Message, number: int, pending: OrderedDict[str, Message]) -> bool:
        if message.id in pending:
            return True
        file, is_recorded = self.choice.find(message.id)
        if file == number and is_recorded:
            self.recorded += self._is_new(message.id)
        elif file >= 0 and file != number:
            self.left_out["copy"] += self._is_new(f"{message.id} {number}")
        return file == number and not is_recorded

    def _is_new(self, key: str) -> bool:
        """Return whether ``key`` differs from the last one counted: one message has several lines."""
        is_new = key != self._last_counted
        self._last_counted = key
        return is_new


def _merge(pending: OrderedDict[str, Message], message: Message) -> None:
    known = pending.get(message.id)
    if known is None:
        pending[message.id] = message
    else:
        known.add(message)


def _close(message: Message, requests: Requests) -> Found:
    return Found(message, requests.rebuild(message.request_ref))


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None
