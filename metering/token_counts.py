"""Token counts by class, of one pass, of one call, or summed over many calls.

Each field of ``TokenCounts`` declares one class of tokens. Its name is the same in upstream's usage
object, in the columns of every table of calls or sums, and in the management API. All code that
reads, stores, sums, compares or shows tokens is derived from these fields."""

from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Protocol, Self


class _Row(Protocol):
    def __getitem__(self, name: str, /) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenClass:
    """A class of tokens. ``name`` is that of the field of ``TokenCounts``.

    ``title`` is its name on pages, ``about`` the description of its columns. ``in_prompt``: the tokens
    are part of the prompt. ``label`` is its value of ``kind`` in ``/metrics``. ``color`` is the CSS
    class of its colour in drawings. ``in_reports`` are the fields of upstream's usage report that add
    up to it."""

    name: str = ""
    title: str
    about: str
    in_prompt: bool = False
    label: str
    color: str
    in_reports: tuple[str, ...]


def _declare(declared: TokenClass) -> Any:
    return field(default=None, metadata={"class": declared})


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Counts of tokens by class, None if unknown.

    The sum of a known count and an unknown one is the known one."""

    input_tokens: int | None = _declare(
        TokenClass(
            title="Uncached input",
            about="Uncached input tokens.",
            in_prompt=True,
            label="uncached_input",
            color="input",
            in_reports=("uncached_input_tokens",),
        )
    )
    output_tokens: int | None = _declare(
        TokenClass(
            title="Output",
            about="Output tokens, thinking included.",
            label="output",
            color="output",
            in_reports=("output_tokens",),
        )
    )
    cache_creation_input_tokens: int | None = _declare(
        TokenClass(
            title="Cache writes",
            about="Tokens written to the prompt cache.",
            in_prompt=True,
            label="cache_write",
            color="write",
            in_reports=(
                "cache_creation.ephemeral_1h_input_tokens",
                "cache_creation.ephemeral_5m_input_tokens",
            ),
        )
    )
    cache_read_input_tokens: int | None = _declare(
        TokenClass(
            title="Cache reads",
            about="Tokens read from the prompt cache.",
            in_prompt=True,
            label="cache_read",
            color="read",
            in_reports=("cache_read_input_tokens",),
        )
    )

    @classmethod
    def from_row(cls, row: _Row) -> Self:
        """Return the counts in a row or JSON object by name; missing ones are None."""
        found: dict[str, int | None] = {}
        for name in NAMES:
            try:
                found[name] = row[name]
            except KeyError:
                continue
        return cls(**found)

    @property
    def are_known(self) -> bool:
        return _values(self) != _NOTHING

    @property
    def prompt(self) -> int | None:
        """Return the total of the prompt's tokens, or None if no count is known."""
        known = [count for count in _prompt_values(self) if count is not None]
        return sum(known) if known else None

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        return TokenCounts(
            *[
                theirs if ours is None else ours if theirs is None else ours + theirs
                for ours, theirs in zip(_values(self), _values(other), strict=True)
            ]
        )


def list_flat_fields(kind: type[Any]) -> dict[str, str]:
    """Return the fields of a dataclass in order, with the path that ``operator.attrgetter`` takes.

    Token counts, which are one field of the dataclass, are listed as a field for each class, as in
    columns and JSON."""
    paths: dict[str, str] = {}
    for each in fields(kind):
        if each.type is TokenCounts:
            paths |= {name: f"{each.name}.{name}" for name in NAMES}
        else:
            paths[each.name] = each.name
    return paths


def flatten(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, with token counts as one field for each class."""
    return {name: attrgetter(path)(value) for name, path in list_flat_fields(type(value)).items()}


TOKEN_CLASSES = tuple(
    replace(each.metadata["class"], name=each.name) for each in fields(TokenCounts)
)
PROMPT_CLASSES = tuple(each for each in TOKEN_CLASSES if each.in_prompt)
OTHER_CLASSES = tuple(each for each in TOKEN_CLASSES if not each.in_prompt)
# As charts stack them, from below: what was in the cache comes first.
CHART_CLASSES = (*reversed(PROMPT_CLASSES), *OTHER_CLASSES)
NAMES = tuple(each.name for each in TOKEN_CLASSES)
UNKNOWN, ZERO = TokenCounts(), TokenCounts(**dict.fromkeys(NAMES, 0))
# With a single name attrgetter returns no tuple; there are always several classes.
_values = attrgetter(*NAMES)
_NOTHING = _values(UNKNOWN)
_prompt_values = attrgetter(*(each.name for each in PROMPT_CLASSES))
