"""Markdown as safe HTML that hides nothing of the text.

HTML in the text is shown as text. Images become links, so nothing is loaded from elsewhere. Links are to
absolute http, https and mailto addresses only, which are written beside their words. The result is
sanitised again by nh3. Markdown can hide text: in definitions of references, in cells beyond the columns
of a table. If the words of the result are not those of the source, the text is shown unrendered.
"""

import html
import re
from collections.abc import Sequence
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.common.normalize_url import normalizeLinkText as normalize_link_text
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape

from dashboard.call.texts.highlighting import Ink, highlight

MAX_CHARS = 100_000
_LINK_SCHEMES = ("http://", "https://", "mailto:")
_HIGHLIGHTED = ("comment", "keyword", "string", "number", "name", "field", "added", "removed")
_TAGS = {
    "a", "blockquote", "br", "code", "div", "em", "hr", "li", "ol", "p", "pre", "s", "span",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_CLASSES = {
    "div": {f"h{level}" for level in range(1, 7)} | {"table-scroll"},
    "p": {"language"},
    "span": {f"hl-{name}" for name in _HIGHLIGHTED} | {"address"},
}
_ATTRIBUTES = {"a": {"href"}, "li": {"value"}, "ol": {"start"}, "div": {"tabindex"}}
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    allowed_classes=_CLASSES,
    url_schemes={"http", "https", "mailto"},
    link_rel="noopener noreferrer nofollow",
)
_LIST_NUMBER = re.compile(r'<li value="([0-9]+)">')
_TAG = re.compile(r"<[^>]*+>?")
_NO_WORD = re.compile(r"[\W_]+")


def render_markdown(text: str, ink: Ink) -> Markup | None:
    """Return the text as HTML, or None if it must be shown unrendered. Control characters in ``text`` have
    been made visible already (``runtime.safe_text``)."""
    if len(text) > MAX_CHARS:
        return None
    try:
        cleaned = _CLEANER.clean(_MARKDOWN.render(text, {"ink": ink}))
    except RecursionError:
        return None
    if _words_of(_visible(cleaned)) != _words_of(text):
        return None
    return Markup(cleaned)  # noqa: S704 - sanitised above


def _visible(markup: str) -> str:
    return html.unescape(_TAG.sub("", _LIST_NUMBER.sub(r"\1 ", markup)))


def _words_of(text: str) -> str:
    return _NO_WORD.sub("", text)


class _Renderer(RendererHTML):
    """Renders Markdown as parts of pages: headings that stay out of the page's outline, images as links,
    highlighted code."""

    def fence(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        info = token.info.strip()
        head = f'<p class="language">{escape(info)}</p>' if info else ""
        language = info.split(maxsplit=1)[0] if info else ""
        code = highlight(token.content, language, env["ink"])
        return f"{head}<pre><code>{code}</code></pre>\n"

    def code_block(self, tokens: Sequence[Token], idx: int, *_rest: Any) -> str:
        return f"<pre><code>{escape(tokens[idx].content)}</code></pre>\n"

    def image(self, tokens: Sequence[Token], idx: int, *_rest: Any) -> str:
        token = tokens[idx]
        words = escape(token.content)
        return f"{_open_link(token)}{words}{_close_link(token, 'src', token.content)}"

    def link_open(self, tokens: Sequence[Token], idx: int, *_rest: Any) -> str:
        return _open_link(tokens[idx])

    def link_close(self, tokens: Sequence[Token], idx: int, *_rest: Any) -> str:
        start = _find_start(tokens, idx)
        words = "".join(token.content for token in tokens[start + 1 : idx])
        return _close_link(tokens[start], "href", words)

    def heading_open(self, tokens: Sequence[Token], idx: int, *_rest: Any) -> str:
        return f'<div class="{tokens[idx].tag}">'

    def heading_close(self, *_given: Any) -> str:
        return "</div>\n"

    def list_item_open(self, tokens: Sequence[Token], idx: int, *_rest: Any) -> str:
        number = tokens[idx].info
        return f'<li value="{number}">' if number.isdecimal() else "<li>"

    def table_open(self, *_given: Any) -> str:
        return '<div class="table-scroll" tabindex="0"><table>'

    def table_close(self, *_given: Any) -> str:
        return "</table></div>\n"


def _open_link(token: Token) -> str:
    address = str(token.attrGet("href") or token.attrGet("src") or "")
    return f'<a href="{escape(address)}">' if address.startswith(_LINK_SCHEMES) else "<span>"


def _close_link(token: Token, attribute: str, words: str) -> str:
    """Return the closing tag of a link, followed by its address unless its words are the address."""
    address = str(token.attrGet(attribute) or "")
    shown = normalize_link_text(address)
    end = "</a>" if address.startswith(_LINK_SCHEMES) else "</span>"
    title = token.attrGet("title")
    said = [f"({shown})"] if words not in (shown, shown.removeprefix("mailto:")) else []
    if title:
        said.append(f'"{title}"')
    return f'{end} <span class="address">{escape(" ".join(said))}</span>' if said else end


def _find_start(tokens: Sequence[Token], end: int) -> int:
    """Return the index of the token that opens the link which ``tokens[end]`` closes."""
    depth = 0
    for place in range(end, -1, -1):
        depth += tokens[place].nesting if tokens[place].type.startswith("link_") else 0
        if depth == 0:
            return place
    return 0


_MARKDOWN = (
    MarkdownIt("commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer)
    .enable(["table", "strikethrough"])
    .disable(["reference", "entity"])
)
