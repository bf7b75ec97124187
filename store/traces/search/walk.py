"""The texts in the pieces of a request body, each with its role.

The pieces of a body are walked in order, and known ones are skipped: walking needs only the parse
position at the end of the last one.

Removing a text from the index requires exactly the text that was indexed. Hence ``Step.recipe``,
with which the same texts can be computed from a piece alone. It has the parse position at the
beginning of the piece and, because a message may state its role after its content, the roles that
were found for the message and block at the end."""

from typing import Literal

from store.traces.search.text import clean
from wire.block import RESULT
from wire.json_reading import decode_string
from wire.request_strings import SYSTEM, TOOLS, Position

type Role = Literal["tool_result", "user", "assistant", "system", "tool"]
type Texts = list[tuple[Role, str]]

MAX_PIECE_CHARS = 400_000


class Step:
    """The walk over one piece. Its recipe and texts are final once the whole body was walked."""

    __slots__ = ("_after", "_before", "_said", "_shape")

    def __init__(self, position: Position, piece: bytes) -> None:
        """Walk the next piece from ``position``, which is moved to the end of the piece."""
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
        """Return the recipe with which ``read_piece`` finds the same texts again."""
        (before, block_before), (after, block_after) = self._before, self._after
        names = f"{before.name}|{block_before.name}>{after.name}|{block_after.name}"
        return f"{self._shape}|{names}"

    @property
    def texts(self) -> Texts:
        """Return (role, text) for the texts of the piece, in order."""
        texts: Texts = []
        left = MAX_PIECE_CHARS
        for section, message, block, text in self._said:
            if left <= 0:
                break
            texts.append((_find_role(section, message.name, block.name), text[:left]))
            left -= len(text)
        return texts

    def settle(self, names: str) -> None:
        """Set the names of the message and the block at the end of the piece, given as "message|block"."""
        for owner, name in zip(self._after, names.split("|"), strict=True):
            owner.name = name


def read_piece(piece: bytes, recipe: str) -> Texts:
    """Return the texts of a piece, by the recipe from the walk of its body."""
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
