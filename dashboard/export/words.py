"""The text of turns for the exported file of a session, rendered in a query process."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, replace

from starlette.responses import JSONResponse, Response

from dashboard import rendering
from dashboard.call.addresses import Address, find_address
from dashboard.call.blocks.view import Block, Facts, File, Picture, Piece
from dashboard.call.conversation import Message
from dashboard.call.response import MessageResponse
from dashboard.call.views import open_file, open_new, open_response
from dashboard.queries.page_request import PageRequest
from dashboard.rendering import PRIVATE
from store.traces.calls.call_reader import Call, CallReader

MAX_PICTURE_BYTES = 2 << 20
MAX_PICTURES_BYTES = 32 << 20  # of one file


def render(page: PageRequest, reader: CallReader) -> Response:
    """Return as JSON the HTML of each call: the new messages of its request, and its response.

    The HTML is "" for a call that does not exist any more. Raises sqlite3.Error and MissingPieceError."""
    words = _Words(reader, page.arguments["pictures_bytes"], page.is_plain)
    markup = [words.render(usage_id) for usage_id in page.arguments["usage_ids"]]
    found = {"words": markup, "pictures_bytes": words.pictures_bytes}
    return JSONResponse(found, headers=PRIVATE)


@dataclass(slots=True)
class _Words:
    """Renders the text of one turn after the other. ``pictures_bytes`` is the size of all images in the
    file so far."""

    reader: CallReader
    pictures_bytes: int
    is_plain: bool

    def render(self, usage_id: int) -> str:
        call = self.reader.find_call(usage_id)
        if call is None:
            return ""
        new = open_new(call, self.reader, is_plain=self.is_plain)
        answer = open_response(call, self.reader, is_plain=self.is_plain)
        return rendering.render_part(
            "session_file_words.html",
            is_plain=self.is_plain,
            messages=self._embed_messages(new.messages, call),
            left_out=new.earlier,
            is_first=new.latest is None or new.latest.previous_id is None,
            response=self._embed_response(answer.response, call),
            has_request=call.request is not None,
            has_response=call.response is not None,
        )

    def _embed_messages(self, messages: Iterable[Message] | None, call: Call) -> list[Message]:
        return [
            replace(message, blocks=self._embed_all(message.blocks, call))
            for message in messages or ()
        ]

    def _embed_response(
        self, response: MessageResponse | None, call: Call
    ) -> MessageResponse | None:
        if response is None:
            return None
        return replace(response, blocks=self._embed_all(response.blocks, call), address="")

    def _embed_all(self, blocks: tuple[Block, ...], call: Call) -> tuple[Block, ...]:
        return tuple(self._embed(block, call) for block in blocks)

    def _embed(self, block: Block, call: Call) -> Block:
        """Return a block with its images as data URLs, and without links to our pages."""
        return replace(
            block,
            pieces=tuple(self._embed_piece(piece, call) for piece in block.pieces),
            parts=self._embed_all(block.parts, call),
            result=None if block.result is None else self._embed(block.result, call),
        )

    def _embed_piece(self, piece: Piece, call: Call) -> Piece:
        if isinstance(piece, Picture):
            address = self._read_picture(find_address(piece.address), call)
            if address is not None:
                return replace(piece, address=address)
        if isinstance(piece, Picture | File):
            return Facts(items=(("Not in this file", piece.words),))
        return piece

    def _read_picture(self, asked: Address | None, call: Call) -> str | None:
        """Return an image as a data URL, None if the image or all images together are too large."""
        file = None if asked is None else open_file(call, asked, self.reader)
        if file is None or file.picture_type is None or len(file.data) > MAX_PICTURE_BYTES:
            return None
        self.pictures_bytes += len(file.data)
        if self.pictures_bytes > MAX_PICTURES_BYTES:
            return None
        return f"data:{file.picture_type};base64,{base64.b64encode(file.data).decode()}"
