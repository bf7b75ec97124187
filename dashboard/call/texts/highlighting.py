"""Code as HTML with CSS classes for its colours, which ``code.css`` has.

Pygments makes the tokens and this module writes the HTML, so that no style, line number or script of a
formatter gets in. The text is unchanged: the HTML without its tags is the code.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from pathlib import PurePosixPath

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import get_all_lexers, get_lexer_by_name
from pygments.token import (
    Comment,
    Generic,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    String,
    _TokenType,
)

INK = 20_000  # characters of code of one page, which take some 50 ms
_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "comment"),
    (Keyword, "keyword"),
    (Operator.Word, "keyword"),
    (String, "string"),
    (Number, "number"),
    (Literal, "number"),
    (Name.Function, "name"),
    (Name.Class, "name"),
    (Name.Decorator, "name"),
    (Name.Tag, "name"),
    (Name.Attribute, "field"),
    (Name.Builtin, "field"),
    (Name.Variable, "field"),
    (Generic.Heading, "keyword"),
    (Generic.Subheading, "name"),
    (Generic.Inserted, "added"),
    (Generic.Deleted, "removed"),
)
_BY_SUFFIX = {
    ".bash": "bash", ".c": "c", ".cfg": "ini", ".cpp": "cpp", ".cs": "csharp", ".css": "css",
    ".diff": "diff", ".go": "go", ".h": "c", ".hpp": "cpp", ".html": "html", ".ini": "ini",
    ".java": "java", ".js": "javascript", ".json": "json", ".jsx": "javascript", ".kt": "kotlin",
    ".lua": "lua", ".mjs": "javascript", ".patch": "diff", ".php": "php", ".pl": "perl",
    ".py": "python", ".pyi": "python", ".r": "r", ".rb": "ruby", ".rs": "rust", ".scala": "scala",
    ".scss": "scss", ".sh": "bash", ".sql": "sql", ".swift": "swift", ".tf": "terraform",
    ".toml": "toml", ".ts": "typescript", ".tsx": "typescript", ".vue": "html", ".xml": "xml",
    ".yaml": "yaml", ".yml": "yaml", ".zig": "zig", ".zsh": "bash",
}  # fmt: skip


@dataclass(slots=True)
class Ink:
    """The number of characters that a page may still highlight; highlighting is much slower than text."""

    left: int = INK

    def take(self, count: int) -> bool:
        """Deduct ``count`` characters and return True, or return False if fewer are left."""
        if count > self.left:
            return False
        self.left -= count
        return True


def highlight(code: str, language: str, ink: Ink) -> Markup:
    """Return code as HTML. It has colours if Pygments knows ``language`` and ``ink`` has enough left."""
    lexer = _find_lexer(language)
    if lexer is None or not ink.take(len(code)):
        return escape(code)
    tokens = ((_find_class(kind), value) for kind, value in lexer.get_tokens(code))
    parts = []
    for name, group in groupby(tokens, lambda token: token[0]):
        text = escape("".join(value for _, value in group))
        parts.append(f'<span class="hl-{name}">{text}</span>' if name else text)
    return Markup("").join(map(Markup, parts))


def load_lexers() -> None:
    """Load the lexers of the most common languages, so that forks of this process share them."""
    for language in ("bash", "json", "python"):
        highlight("", language, Ink())


def find_language(path: str) -> str:
    """Return the language of a file by the suffix of its name, "" if it is not known."""
    return _BY_SUFFIX.get(PurePosixPath(path.replace("\\", "/")).suffix.lower(), "")


def is_language(name: str) -> bool:
    """Return whether Pygments knows a language of this name."""
    return name.lower() in _list_languages()


@cache
def _list_languages() -> frozenset[str]:
    return frozenset(alias for lexer in get_all_lexers(plugins=False) for alias in lexer[1])


@lru_cache(256)
def _find_lexer(language: str) -> Lexer | None:
    if not is_language(language):
        return None
    return get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False)


@cache
def _find_class(kind: _TokenType) -> str:
    return next((name for parent, name in _CLASSES if parent in kind.split()), "")
