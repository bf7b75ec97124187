"""Requests and responses with words that are easily found."""

import json

from store.traces.search import index
from tests.store.traffic import make_entry

NOTHING: dict[str, list[int]] = {"pieces": [], "responses": []}


def user(text, **more):
    return {"role": "user", "content": text} | more


def assistant(*blocks):
    return {"role": "assistant", "content": [as_block(each) for each in blocks]}


def as_block(said):
    return {"type": "text", "text": said} if isinstance(said, str) else said


def tool_call(number, **given):
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": given}


def tool_result(number, content):
    return user([{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content}])


def request(*messages, **others):
    return json.dumps({"model": "claude-sonnet-4-5", "messages": messages, **others}).encode()


def response(*blocks):
    return json.dumps({"type": "message", "content": [as_block(each) for each in blocks]}).encode()


def stream(*parts, kind="text_delta", name="text", block=None, space=""):
    """The events of a response with one block, whose text comes in these parts."""
    block = block or {"type": "text", "text": ""}
    documents = [
        {"type": "message_start", "message": {"content": []}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": kind, name: part}}
            for part in parts
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    ]
    separators = (f",{space}", f":{space}")
    return b"".join(
        f"event: {each['type']}\ndata: {json.dumps(each, separators=separators)}\n\n".encode()
        for each in documents
    )


def record(traces, *bodies, **changes):
    """Record calls of one session, given as pairs of request and response."""
    traces.insert(
        [
            make_entry(
                **{"session_id": "s", "request_body": body, "response_body": answer} | changes
            )
            for body, answer in bodies
        ]
    )


def find(traces, words):
    """The indexed pieces and responses that have a word or phrase, as SQLite finds them."""
    db = traces.connection
    return {
        kind: [
            row[0]
            for row in db.execute(
                f"select rowid from {table} where {table} match ? order by 1",  # noqa: S608
                (f'"{words}"',),
            )
        ]
        for kind, table in (("pieces", "search_text"), ("responses", "search_response"))
    }


def first_calls(traces, words):
    """The calls that the pieces and responses with a word are shown with, oldest first."""
    found = find(traces, words)
    db = traces.connection
    calls = [
        db.execute("select usage_id from search_pieces where piece_id = ?", (piece,)).fetchone()[0]
        for piece in found["pieces"]
    ]
    return sorted(calls + found["responses"])


def list_texts(traces):
    """All texts that are indexed, each with its role."""
    db = traces.connection
    pieces = db.execute("select piece_id from search_pieces where copy_of is null order by 1")
    responses = db.execute("select usage_id from search_responses order by 1")
    return [
        *(text for (id_,) in pieces.fetchall() for text in index.read_piece_texts(db, id_)),
        *(text for (id_,) in responses.fetchall() for text in index.read_response_texts(db, id_)),
    ]
