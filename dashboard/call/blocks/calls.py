"""Views of tool calls: a command as a command, an edit as a difference, a to-do list as a list.

The shape of the input decides on the form, since every client names its tools differently. Fields that a
form does not show are listed beside it.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from dashboard.call.blocks.edits import FILE_NAMES, Read, read_edit
from dashboard.call.blocks.room import Room
from dashboard.call.blocks.view import Block, Piece, Tasks, cache_note, short
from dashboard.call.texts.highlighting import find_language
from metering.tool_names import read_name
from runtime.safe_text import reveal
from wire import block as wire
from wire.json_reading import as_list, as_object, as_objects, as_text

_SHELLS = re.compile(r"bash|shell|terminal|command|exec|powershell|^sh$", re.IGNORECASE)
_PROSE = ("prompt", "description", "plan", "question", "message", "body", "summary")
_TASK_WORDS = ("content", "subject", "title", "task", "text", "description")
_MAX_TASKS = 500
_RUN_BY_UPSTREAM = "run by upstream"

type _Form = Callable[[str, dict[str, object], Room], Read | None]


def read_call(item: dict[str, object], room: Room, _place: str) -> Block:
    """Return the view of a tool call, which the client or upstream carries out."""
    call = wire.Block(item)
    notes = [*cache_note(item)]
    if call.caller not in ("", "direct"):
        notes.append(f"called by {short(call.caller)}")
    if call.kind != wire.CALL:
        notes.append(_RUN_BY_UPSTREAM if call.kind in wire.CALL_KINDS else short(call.kind))
    rest = {key: value for key, value in item.items() if key not in wire.OF_CALL}
    server, tool = (short(name or "") for name in read_name(call))
    return Block(
        kind="call",
        label=server or tool or "Tool",
        name=tool if server else "",
        notes=tuple(notes),
        pieces=(*_read_input(call.name, call.input, room), *room.fields(rest)),
        id=call.call_id,
    )


def _read_input(name: str, given: object, room: Room) -> Iterator[Piece]:
    if isinstance(given, str):  # what was cut in the middle of its JSON is the text that came
        yield room.plain(given)
        return
    if not isinstance(given, dict):
        if given is not None:
            yield room.json(given)
        return
    for form in _FORMS:
        if found := form(name, given, room):
            pieces, shown = found
            yield from room.fields({k: v for k, v in given.items() if k not in shown})
            yield from pieces
            return
    prose = [
        key for key in _PROSE if isinstance(given.get(key), str) and "\n" in as_text(given[key])
    ]
    yield from room.fields({k: v for k, v in given.items() if k not in prose})
    for key in prose:
        yield room.prose(as_text(given[key]), key)


def _as_command(name: str, given: dict[str, object], room: Room) -> Read | None:
    for key in ("command", "cmd"):
        command = given.get(key)
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            continue  # words of a command, which quoting would change
        if isinstance(command, str) and (_SHELLS.search(name) or "\n" in command):
            return (room.command(command),), (key,)
    return None


def _as_code(_name: str, given: dict[str, object], room: Room) -> Read | None:
    code = given.get("code")
    if not isinstance(code, str):
        return None
    language = as_text(given.get("language")) or "python"
    return (room.code(code, language),), ("code",)


def _as_tasks(_name: str, given: dict[str, object], room: Room) -> Read | None:
    todos = given.get("todos")
    if (
        not isinstance(todos, list)
        or not todos
        or not all(isinstance(each, dict) and _find_words(each) for each in todos[:_MAX_TASKS])
    ):
        return None
    items = tuple(_read_task(each, room) for each in as_objects(todos[:_MAX_TASKS]))
    return (Tasks(items=items, left_out=len(as_list(todos)) - len(items)),), ("todos",)


def _read_task(task: Mapping[str, object], room: Room) -> tuple[str, str, str]:
    key = _find_words(task)
    rest = [
        f"{short(name)}: {short(value) if isinstance(value, str) else value}"
        for name, value in task.items()
        if name not in (key, "status")
    ]
    words = room.take(as_text(task.get(key))).text
    return short(task.get("status")), words, reveal(", ".join(rest))


def _find_words(task: Mapping[str, object]) -> str:
    return next((key for key in _TASK_WORDS if as_text(task.get(key))), "")


def _as_edit(_name: str, given: dict[str, object], room: Room) -> Read | None:
    return read_edit(given, room)


_FORMS: tuple[_Form, ...] = (_as_edit, _as_tasks, _as_command, _as_code)


def find_file_language(given: object) -> str:
    """Return the language of the file that the input of a tool call names, "" if it names none."""
    fields = as_object(given)
    found = (find_language(as_text(fields.get(name))) for name in FILE_NAMES)
    return next(filter(None, found), "")
