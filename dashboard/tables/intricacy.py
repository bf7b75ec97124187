"""How much SQLite may have to write out before it can run a query, judged by the text alone.

A name that stands for a query is written out wherever it is used, and so is a column that stands for
an expression: of twenty short lines that each use the one before twice, a million come out. That takes
seconds and gigabytes, and nothing interrupts it.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_INTRICACY = 40_000  # each may take kilobytes
_MAX_DEPTH = 200

_TOKEN = re.compile(
    r"""(?:\s+|--[^\n]*|/\*.*?(?:\*/|\Z))*
    (?:(?P<name>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)
    |(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])  # a text can be a name, too
    |(?P<number>\d[\w.]*)
    |(?P<other>.))""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = (
    "all and as asc between by case cast desc distinct else end escape except exists filter following"
    " from full glob group having in inner intersect is isnull join left like limit materialized not"
    " notnull null nulls offset on or order outer over partition preceding range recursive right rows"
    " select then unbounded union using values when where window with"
)
_IS_KEYWORD = frozenset(_KEYWORDS.split()).__contains__


@dataclass(slots=True)
class _Level:
    """What is between two parentheses, without what is between others within. ``named`` are those
    within that have a name, which it has for this level and all within."""

    parent: "_Level | None" = None
    uses: Counter[str] = field(default_factory=Counter)
    inner: list["_Level"] = field(default_factory=list)
    named: defaultdict[str, list["_Level"]] = field(default_factory=lambda: defaultdict(list))

    def find(self, name: str) -> Sequence["_Level"]:
        level: _Level | None = self
        while level is not None:
            if name in level.named:
                return level.named[name]
            level = level.parent
        return ()


def measure_intricacy(sql: str) -> float:
    """About how many expressions come out: rather too many than too few."""
    known: dict[int, float] = {}

    def measure(level: _Level, depth: int) -> float:
        if depth > _MAX_DEPTH:
            return math.inf
        if id(level) not in known:
            known[id(level)] = 1  # for one that names itself
            parts = [measure(inner, depth + 1) for inner in level.inner]
            for name, count in level.uses.items():
                parts += [count * measure(named, depth + 1) for named in level.find(name)]
            known[id(level)] = max(level.uses.values(), default=1) * max(sum(parts), 1)
        return known[id(level)]

    whole = _read(_split(sql))
    return math.inf if whole is None else measure(whole, 0)


def _split(sql: str) -> Sequence[str]:
    """Names without quotes and in lower case, numbers as 0."""
    words = []
    for found in _TOKEN.finditer(sql):
        if found["quoted"]:
            mark = found["quoted"][-1]
            words.append(found["quoted"][1:-1].replace(mark * 2, mark).lower())
        else:
            words.append("0" if found["number"] else (found["name"] or found["other"]).lower())
    return words


def _read(words: Sequence[str]) -> _Level | None:
    """``name AS (`` and ``name (columns) AS (`` give a level its name. None for too many in each other."""
    level, begins, begin_of = _Level(), list[int](), dict[int, int]()
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        if word == "(":
            name = _find_name(words, place, begin_of)
            within = _Level(level)
            if name is None:
                level.inner.append(within)
            else:
                level.named[name].append(within)
            level = within
            begins.append(place)
            if len(begins) > _MAX_DEPTH:
                return None
        elif word == ")" and level.parent is not None:
            level = level.parent
            begin_of[place] = begins.pop()
        elif (
            not _IS_KEYWORD(word)
            and (word[:1].isalpha() or len(word) > 1 or word == "_")
            and following not in ("(", ".")  # a function, or whose column it is
        ):
            level.uses[word] += 1
    while level.parent is not None:
        level = level.parent
    return level


def _find_name(words: Sequence[str], place: int, begin_of: dict[int, int]) -> str | None:
    place -= 1
    while place >= 0 and words[place] in ("materialized", "not"):
        place -= 1
    if place < 1 or words[place] != "as":
        return None
    place -= 1
    if place in begin_of:
        place = begin_of[place] - 1
    return words[place] if place >= 0 else None
