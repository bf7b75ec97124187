"""A session as one HTML file, which needs no service: styles and images are in it, scripts are not.

Its text comes from traces, so it forbids itself whatever might load or run something (its policy is in its
head). It is made turn by turn, so a long session takes the memory of one call.
"""

import base64
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from dashboard import rendering
from dashboard.call.addresses import Address, find_address
from dashboard.call.blocks.view import Block, Facts, File, Picture, Piece
from dashboard.call.conversation import Message
from dashboard.call.response import MessageResponse
from dashboard.call.views import open_file, open_new, open_response
from dashboard.sessions.opened import Opened
from dashboard.sessions.turns import TurnLine
from runtime import clock
from store.traces.call_reader import Call, CallReader

MAX_PICTURE_BYTES = 2 << 20
MAX_PICTURES_BYTES = 32 << 20  # of one file
_STYLES = ("taximeter.css", "session.css", "trace.css", "code.css", "session-file.css")
_STATIC = Path(rendering.__file__).parent / "static"


@cache
def read_styles() -> str:
    """Return the style sheets of the file."""
    return "\n".join((_STATIC / name).read_text() for name in _STYLES)


class SessionFile:
    """The parts of a file. Without bodies it has no words of requests and responses, no titles either."""

    def __init__(self, opened: Opened, *, with_bodies: bool, exported_by: str) -> None:
        self._opened = opened
        self._with_bodies = with_bodies
        self._exported_by = exported_by
        self._pictures_bytes = 0

    def render_head(self) -> str:
        """Return what comes before the turns."""
        return rendering.render_part(
            "session_file_head.html",
            title=self._opened.session.title if self._with_bodies else None,
            styles=read_styles(),
            with_bodies=self._with_bodies,
            exported_by=self._exported_by,
            exported_at=clock.format_ms(clock.now()),
            **self._opened.as_context(),
        )

    def render_turn(self, line: TurnLine, reader: CallReader) -> str:
        """Return a turn, with what was new in its request and with its response. Raises sqlite3.Error and
        MissingPieceError."""
        if not self._with_bodies:
            return rendering.render_part(
                "session_file_turn.html", line=_without_words(line), body=None
            )
        call = reader.find_call(line.turn.id)
        body = None if call is None else self._read_body(call, reader)
        return rendering.render_part("session_file_turn.html", line=line, body=body)

    @staticmethod
    def render_foot() -> str:
        """Return what comes behind the turns."""
        return rendering.render_part("session_file_foot.html")

    def _read_body(self, call: Call, reader: CallReader) -> dict[str, Any]:
        new, answer = open_new(call, reader), open_response(call, reader)
        return {
            "messages": self._embed_messages(new.messages, call, reader),
            "left_out": new.earlier,
            "is_first": new.latest is None or new.latest.previous_id is None,
            "response": self._embed_response(answer.response, call, reader),
            "has_request": call.request is not None,
            "has_response": call.response is not None,
        }

    def _embed_messages(
        self, messages: tuple[Message, ...] | None, call: Call, reader: CallReader
    ) -> list[Message]:
        return [
            replace(message, blocks=self._embed_all(message.blocks, call, reader))
            for message in messages or ()
        ]

    def _embed_response(
        self, response: MessageResponse | None, call: Call, reader: CallReader
    ) -> MessageResponse | None:
        if response is None:
            return None
        blocks = self._embed_all(response.blocks, call, reader)
        return replace(response, blocks=blocks, address="")

    def _embed_all(
        self, blocks: tuple[Block, ...], call: Call, reader: CallReader
    ) -> tuple[Block, ...]:
        return tuple(self._embed(block, call, reader) for block in blocks)

    def _embed(self, block: Block, call: Call, reader: CallReader) -> Block:
        """Return a block with its images in it. What it would lead to on our pages is left out."""
        return replace(
            block,
            pieces=tuple(self._embed_piece(piece, call, reader) for piece in block.pieces),
            parts=self._embed_all(block.parts, call, reader),
            result=None if block.result is None else self._embed(block.result, call, reader),
        )

    def _embed_piece(self, piece: Piece, call: Call, reader: CallReader) -> Piece:
        if isinstance(piece, Picture):
            address = self._read_picture(find_address(piece.address), call, reader)
            if address is not None:
                return replace(piece, address=address)
        if isinstance(piece, Picture | File):
            return Facts(items=(("Not in this file", piece.words),))
        return piece

    def _read_picture(self, asked: Address | None, call: Call, reader: CallReader) -> str | None:
        """Return an image as a data URL, None where it is too large."""
        file = None if asked is None else open_file(call, asked, reader)
        if file is None or file.picture_type is None or len(file.data) > MAX_PICTURE_BYTES:
            return None
        self._pictures_bytes += len(file.data)
        if self._pictures_bytes > MAX_PICTURES_BYTES:
            return None
        return f"data:{file.picture_type};base64,{base64.b64encode(file.data).decode()}"


def _without_words(line: TurnLine) -> TurnLine:
    """Return a line with nothing that was said: titles, and what a cache break changed."""
    broken = "cache break" if line.cache_break else None
    return replace(line, title=None, cache_break=broken)
