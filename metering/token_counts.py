"""Token counts by class, of one pass, of one call, or summed over many calls.

Each field of ``TokenCounts`` is one class of tokens. The class has the same name in upstream's usage
object, in the columns of ``usage`` and ``usage_hourly``, and in the management API. Everything that
reads, stores, sums or shows tokens derives its names from these fields.
"""

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Protocol, Self


class _Row(Protocol):
    def __getitem__(self, name: str, /) -> Any: ...


def _count(title: str, *, in_prompt: bool = False) -> Any:
    """Declare a class of tokens. ``title`` is its name on pages; ``in_prompt``: the model read
    these tokens."""
    return field(default=None, metadata={"title": title, "in_prompt": in_prompt})


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Counts of tokens by class; None is unknown. Adding an unknown count to a known one leaves the
    known one."""

    input_tokens: int | None = _count("Uncached input", in_prompt=True)
    output_tokens: int | None = _count("Output")
    cache_creation_input_tokens: int | None = _count("Cache writes", in_prompt=True)
    cache_read_input_tokens: int | None = _count("Cache reads", in_prompt=True)

    @classmethod
    def from_row(cls, row: _Row) -> Self:
        """Return the counts that a row or JSON object has by name; those it lacks are None."""
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
        """Return the count of all that the model read; None when nothing is known of it."""
        known = [count for count in _prompt_values(self) if count is not None]
        return sum(known) if known else None

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        return TokenCounts(
            *[
                theirs if ours is None else ours if theirs is None else ours + theirs
                for ours, theirs in zip(_values(self), _values(other), strict=True)
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenClass:
    """A class of tokens as pages show it. ``name`` is that of the field of ``TokenCounts``."""

    name: str
    title: str
    in_prompt: bool


def list_flat_fields(kind: type[Any]) -> dict[str, str]:
    """Return the fields of a dataclass in order, with the path that ``operator.attrgetter`` takes.

    Token counts, which are one field of the dataclass, are a field for each class: so are columns
    and JSON."""
    paths: dict[str, str] = {}
    for each in fields(kind):
        if each.type is TokenCounts:
            paths |= {name: f"{each.name}.{name}" for name in NAMES}
        else:
            paths[each.name] = each.name
    return paths


def flatten(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, with those of its token counts among them."""
    return {name: attrgetter(path)(value) for name, path in list_flat_fields(type(value)).items()}


TOKEN_CLASSES = tuple(TokenClass(name=each.name, **each.metadata) for each in fields(TokenCounts))
PROMPT_CLASSES = tuple(each for each in TOKEN_CLASSES if each.in_prompt)
OTHER_CLASSES = tuple(each for each in TOKEN_CLASSES if not each.in_prompt)
NAMES = tuple(each.name for each in TOKEN_CLASSES)
UNKNOWN, ZERO = TokenCounts(), TokenCounts(**dict.fromkeys(NAMES, 0))
# With a single name attrgetter returns no tuple; there are always several classes.
_values = attrgetter(*NAMES)
_NOTHING = _values(UNKNOWN)
_prompt_values = attrgetter(*(each.name for each in PROMPT_CLASSES))
