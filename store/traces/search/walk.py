"""The texts in the pieces of a request body, each with who said it.

The pieces of a body are walked in order, and those that are known are skipped: walking needs only the
position in which the last of them ended.

To remove a text from the index takes exactly the text that was indexed. Hence ``Step.recipe``: with it a
piece alone gives the same texts again. It has the position where the piece begins and, because a message
may name its role only after its content, whose texts those turned out to be that the piece ends in.
"""

from typing import Literal

from store.traces.search.text import clean
from wire.block import RESULT
from wire.json_reading import decode_string
from wire.request_strings import SYSTEM, TOOLS, Position

type Role = Literal["tool_result", "user", "assistant", "system", "tool"]
type Texts = list[tuple[Role, str]]

MAX_PIECE_CHARS = 400_000


class Step:
    """One piece that was walked. What it gives is final when the whole body was walked."""

    __slots__ = ("_after", "_before", "_said", "_shape")

    def __init__(self, position: Position, piece: bytes) -> None:
        """Walk the next piece from a position, which moves to the end of it."""
        self._shape, self._before = position.shape, (position.message, position.block)
        self._said = [
            (section, message, block, text)
            for section, message, block, string in position.walk(piece)
            if (text := clean(decode_string(string)))
        ]
        self._after = position.message, position.block

    @property
    def has_text(self) -> bool:
        return bool(self._said)

    @property
    def recipe(self) -> str:
        """Return what ``read_piece`` needs to find the same texts again."""
        (before, block_before), (after, block_after) = self._before, self._after
        names = f"{before.name}|{block_before.name}>{after.name}|{block_after.name}"
        return f"{self._shape}|{names}"

    @property
    def texts(self) -> Texts:
        """Return the texts, each with who said it, in order."""
        texts: Texts = []
        left = MAX_PIECE_CHARS
        for section, message, block, text in self._said:
            if left <= 0:
                break
            texts.append((_find_role(section, message.name, block.name), text[:left]))
            left -= len(text)
        return texts

    def settle(self, names: str) -> None:
        """Set the names of the message and the block in which the piece ends."""
        for owner, name in zip(self._after, names.split("|"), strict=True):
            owner.name = name


def read_piece(piece: bytes, recipe: str) -> Texts:
    """Return the texts of a piece by the recipe that it got when its body was walked."""
    before, _, after = recipe.rpartition(">")
    step = Step(Position.thaw(before), piece)
    step.settle(after)
    return step.texts


def _find_role(section: str, message: str, block: str) -> Role:
    if section == SYSTEM:
        return "system"
    if section == TOOLS:
        return "tool"
    if block.endswith(RESULT):
        return "tool_result"
    if message == "assistant":
        return "assistant"
    return "system" if message == "system" else "user"
