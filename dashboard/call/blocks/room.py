"""The limits on the text of one page of blocks, and how texts are cut to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from dashboard.call.blocks.view import Facts, Text, short
from dashboard.call.excerpts import Allowance, Excerpt
from dashboard.call.texts.highlighting import Ink, highlight
from dashboard.call.texts.markdown import MAX_CHARS as MAX_MARKDOWN_CHARS, render_markdown
from runtime.safe_text import reveal
from wire import block as wire

MAX_TEXT_CHARS = 50_000
_SHORT_CHARS = 200
_MAX_FIELDS = 200


@dataclass(slots=True)
class Room:
    """The limits on the text of one page. ``allowance`` is left for the page, ``max_chars`` limits each
    text. ``address`` is the address of the body, ``calls`` has its tool calls by id. If ``is_plain``,
    texts are shown without Markdown, colours and differences, whose time has no bound."""

    allowance: Allowance
    ink: Ink = field(default_factory=Ink)
    address: str = ""
    max_chars: int = MAX_TEXT_CHARS
    calls: Mapping[str, wire.Block] = field(default_factory=dict)
    is_plain: bool = False

    def take(self, text: str) -> Excerpt:
        """Return the beginning of a text, as much as the limits allow, and deduct it from the allowance."""
        shown, left_out = self.allowance.take(text[: self.max_chars])
        return Excerpt(shown, left_out + max(len(text) - self.max_chars, 0))

    def prose(self, text: str, label: str = "") -> Text:
        """Return the view of a text, rendered as Markdown unless it is too long for that."""
        shown, left_out = self.take(text)
        markup = None
        if len(text) <= MAX_MARKDOWN_CHARS and not self.is_plain:
            markup = render_markdown(shown, self.ink)
        return Text(style="prose", text=shown, markup=markup, label=label, left_out=left_out)

    def plain(self, text: str, label: str = "", language: str = "") -> Text:
        """Return the view of a text as it is, highlighted if ``language`` is known."""
        shown, left_out = self.take(text)
        markup = self._highlight(shown, language) if language else None
        return Text(style="plain", text=shown, markup=markup, label=label, left_out=left_out)

    def code(self, text: str, language: str, label: str = "") -> Text:
        """Return the view of program code, highlighted if ``language`` is known."""
        return replace(self.plain(text, label, language), style="code")

    def command(self, text: str) -> Text:
        """Return the view of a shell command."""
        return replace(self.plain(text, language="bash"), style="command")

    def json(self, value: object, label: str = "") -> Text:
        """Return the view of a value as indented JSON."""
        room = min(self.max_chars, self.allowance.left)
        part = Allowance(room)
        shown, left_out = part.take_json(value)
        self.allowance.left -= room - part.left
        markup = self._highlight(shown, "json")
        return Text(style="code", text=shown, markup=markup, label=label, left_out=left_out)

    def _highlight(self, code: str, language: str) -> Markup | None:
        return None if self.is_plain else highlight(code, language, self.ink)

    def fields(self, values: Mapping[str, object]) -> tuple[Facts | Text, ...]:
        """Return the views of an object's fields: short values together as one table, each long value
        apart."""
        facts, pieces = [], []
        for name, value in list(values.items())[:_MAX_FIELDS]:
            if is_short(value):
                facts.append((short(name) or "—", show_short(value)))
                self.allowance.take(show_short(value))
            elif isinstance(value, str):
                pieces.append(self.plain(value, short(name)))
            else:
                pieces.append(self.json(value, short(name)))
        if len(values) > _MAX_FIELDS:
            pieces.append(self.json(dict(list(values.items())[_MAX_FIELDS:]), "…"))
        return (*([Facts(items=tuple(facts))] if facts else []), *pieces)


def is_short(value: object) -> bool:
    """Return whether a value is displayed on one line: a short text without line breaks, a number, an
    empty list."""
    if isinstance(value, str):
        return len(value) <= _SHORT_CHARS and "\n" not in value
    return value is None or isinstance(value, bool | int | float) or value in ([], {})


def show_short(value: object) -> str:
    """Return a short value as text."""
    if isinstance(value, str):
        return reveal(value) or "(empty)"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
