"""A page as a test reads it: its elements, and what a person who cannot see it is told."""

import html
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
_CONTROLS = {"input", "select", "textarea"}


def find_address(number: int | str, path: str = "") -> str:
    """The address of a call, or of what is below its row."""
    return f"/traces/usage/{number}{path}" if path else f"/calls/{number}"


def words_of(markup: str) -> str:
    """The words of a part of a page, without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


@dataclass(slots=True)
class Element:
    tag: str
    attributes: dict[str, str]
    parents: tuple["Element", ...]
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    def has_class(self, name: str) -> bool:
        return name in self.attributes.get("class", "").split()

    def is_within(self, tag: str) -> bool:
        return any(parent.tag == tag for parent in self.parents)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        element = Element(tag, attributes, tuple(self._open))
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        for place in range(len(self._open) - 1, -1, -1):
            if self._open[place].tag == tag:
                del self._open[place:]
                return

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.texts.append(data)

    def find(self, tag: str, cls: str | None = None) -> list[Element]:
        return [
            each for each in self.elements if each.tag == tag and (not cls or each.has_class(cls))
        ]

    def unnamed_controls(self) -> list[Element]:
        """Return those that a screen reader has no name for."""
        named = {each.attributes["for"] for each in self.find("label") if "for" in each.attributes}
        return [
            each
            for each in self.elements
            if each.tag in _CONTROLS
            and each.attributes.get("type") not in ("hidden", "submit")
            and not each.attributes.get("aria-label")
            and each.attributes.get("id") not in named
            and not each.is_within("label")
        ]

    def doubled_ids(self) -> set[str]:
        ids = [each.attributes["id"] for each in self.elements if "id" in each.attributes]
        return {each for each in ids if ids.count(each) > 1}
