"""The operations on labels and notes of sessions and calls, and their models."""

from http import HTTPStatus
from typing import Annotated

from pydantic import Field

from manage.api.operation import Context, operation
from store.annotation_rules import MAX_NOTE_CHARS, parse_kind
from store.json_models import Done, NoFields, RequestModel

_LABEL, _NOTE = "/labels/{kind}/{id}/{label}", "/notes/{kind}/{id}"
_MISSING = {HTTPStatus.NOT_FOUND: "There is no such session or call in your organisation."}


class NewNote(RequestModel):
    text: Annotated[str, Field(description=f"1 to {MAX_NOTE_CHARS} characters.")]


@operation(
    "PUT",
    _LABEL,
    name="addLabel",
    summary="Label a session or a call (kind), the latter by its id or that of its entry.",
    errors=_MISSING,
)
def add_label(context: Context[NoFields]) -> Done:
    kind = parse_kind(context.names["kind"])
    management = context.management.annotations
    management.add_label(context.caller, kind, context.id, context.names["label"])
    return Done()


@operation(
    "DELETE",
    _LABEL,
    name="removeLabel",
    summary="Take a label from a session or a call (kind).",
    errors=_MISSING,
)
def remove_label(context: Context[NoFields]) -> Done:
    kind = parse_kind(context.names["kind"])
    management = context.management.annotations
    management.remove_label(context.caller, kind, context.id, context.names["label"])
    return Done()


@operation(
    "PUT",
    _NOTE,
    name="writeNote",
    summary="Write a note about a session or a call (kind), in the place of the one before.",
    errors=_MISSING,
)
def write_note(context: Context[NewNote]) -> Done:
    kind = parse_kind(context.names["kind"])
    text = context.request.text
    context.management.annotations.write_note(context.caller, kind, context.id, text)
    return Done()


@operation(
    "DELETE",
    _NOTE,
    name="removeNote",
    summary="Delete the note about a session or a call (kind).",
    errors=_MISSING,
)
def remove_note(context: Context[NoFields]) -> Done:
    kind = parse_kind(context.names["kind"])
    context.management.annotations.remove_note(context.caller, kind, context.id)
    return Done()
