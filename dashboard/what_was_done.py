"""Deeds of calls in one line each: verb, object, changed lines, problem, words.

Text is as it is stored: what displays it has to escape it, and to reveal hidden characters, which
templates do.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from metering.formats import format_count
from store.traces.calls.tool_uses import StoredUse

ANSWER, SAYS = "Answer", "Says"
_UNNAMED = "Tool"
_MARKS = re.compile(r"\*\*([^*]+)\*\*|`([^`]+)`")
_MAX_OBJECTS = 3  # of one tool in a line; what is beyond is counted
_NO_PATH = frozenset(" *?[(|^$\\")  # in commands and patterns
_SHARE_BELOW_ROOT = 0.8  # of the paths: some are always elsewhere, such as those of settings
_DEPTH_OF_HOMES = (
    3  # /home/ada/cab: below, all have to be in a folder, for tests stand beside the sources
)
_MODELS_WORDS = {
    "max_tokens": "stopped at the output limit",
    "model_context_window_exceeded": "stopped at the context window",
    "refusal": "refused",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """The parts of a line. ``verb`` is a tool, an MCP server, or one of the words above.

    ``folder`` stands before ``object`` and ends in a slash, empty where the object is no file. ``more`` names
    the other tools. ``plus`` and ``minus`` are sums of its uses that did not fail, None where nothing is
    known. ``says`` is to be quoted.
    ``problem`` is why a tool failed, or why the response ended early; ``is_failed`` is for the former."""

    verb: str
    object: str = ""
    folder: str = ""
    more: str = ""
    plus: int | None = None
    minus: int | None = None
    problem: str = ""
    is_failed: bool = False
    says: str = ""

    @property
    def words(self) -> str:
        """Return object, changes and other tools as one text, for a title."""
        parts = (f"{self.folder}{self.object}", format_changes(self.plus, self.minus), self.more)
        return " ".join(part for part in parts if part)


def describe_deed(
    uses: Sequence[StoredUse],
    said: str | None,
    *,
    stop_reason: str | None = None,
    root: str = "",
    said_verb: str = ANSWER,
) -> Deed | None:
    """Return what a call did, None where neither a tool nor a word is known.

    Of several tools the first stands for it that failed or, where none did, that changed a file.
    ``root`` is the folder that paths are displayed from (``find_root``), ``said_verb`` that of a response
    without tools."""
    early = _MODELS_WORDS.get(stop_reason or "", "")
    if not uses:
        return Deed(verb=said_verb, says=drop_marks(said), problem=early) if said else None
    main = _choose_main(uses)
    verb = name_verb(main)
    alike = [main, *(use for use in uses if use is not main and name_verb(use) == verb)]
    folder, names = _name_objects(alike, root)
    return Deed(
        verb=verb,
        folder=folder,
        object=names,
        more=_name_others(uses, main, root),
        plus=sum_known(use.plus for use in alike if use.problem is None),
        minus=sum_known(use.minus for use in alike if use.problem is None),
        problem=early if main.problem is None else main.problem,
        is_failed=main.problem is not None,
        says=drop_marks(said or ""),
    )


def name_verb(use: StoredUse) -> str:
    """Return the verb of a use of a tool: its MCP server, or the tool where it has none."""
    return use.server or use.tool or _UNNAMED


def name_object(use: StoredUse, root: str = "") -> str:
    """Return what a tool was used upon: of an MCP server's tool with its name, of a file from the root on."""
    target = shorten_path(use.target or "", root)
    return f"{use.tool or ''} {target}".strip() if use.server else target


def shorten_path(target: str, root: str) -> str:
    """Return a path as it is named from a folder on; all other text as it is."""
    below = target.removeprefix(f"{root}/") if root else target
    return below or target


def find_root(targets: Iterable[str | None]) -> str:
    """Return the folder that nearly all absolute paths are below, without a slash at its end.

    Empty where there is none. It is the project's, as far as the paths tell."""
    folders = [
        target.split("/")[1:-1] for target in targets if target is not None and _is_path(target)
    ]
    root: list[str] = []
    while folders:
        depth = len(root)
        within = [folder for folder in folders if folder[:depth] == root]
        names = Counter(folder[depth] for folder in within if len(folder) > depth)
        if not names:
            break
        name, count = names.most_common(1)[0]
        if count < (_SHARE_BELOW_ROOT * len(folders) if depth < _DEPTH_OF_HOMES else len(within)):
            break
        root.append(name)
    return "".join(f"/{name}" for name in root)


def format_changes(plus: int | None, minus: int | None) -> str:
    """Return changed lines as ``+3 -1``, without a part that is unknown or 0."""
    return " ".join(
        f"{sign}{format_count(count)}"
        for sign, count in (("+", plus), ("\N{MINUS SIGN}", minus))
        if count
    )


def split_folder(path: str) -> tuple[str, str]:
    """Return the folder of a path, with its slash, and the name; no folder for what is no path."""
    if "://" in path or _NO_PATH & set(path):
        return "", path
    folder, slash, name = path.rpartition("/")
    return (folder + slash, name) if name else ("", path)


def _is_path(target: str) -> bool:
    return target.startswith("/") and not _NO_PATH & set(target)


def _name_objects(uses: Sequence[StoredUse], root: str) -> tuple[str, str]:
    """Return the folder and the names of what one tool was used upon, each once."""
    names = list(dict.fromkeys(filter(None, (name_object(use, root) for use in uses))))
    if len(names) == 1:
        return split_folder(names[0])
    shown = ", ".join(names[:_MAX_OBJECTS])
    rest = len(names) - _MAX_OBJECTS
    return "", f"{shown} and {rest} more" if rest > 0 else shown


def _choose_main(uses: Sequence[StoredUse]) -> StoredUse:
    failed = (use for use in uses if use.problem is not None)
    changing = (use for use in uses if use.plus is not None or use.minus is not None)
    return next(failed, None) or next(changing, uses[0])


def drop_marks(text: str) -> str:
    """Return the first words of a response without the marks of Markdown for bold text and code."""
    return _MARKS.sub(lambda found: found[1] or found[2], text)


def _name_others(uses: Sequence[StoredUse], main: StoredUse, root: str) -> str:
    """Return the tools that were used before and after the main one, as far as they are others."""
    place = next(place for place, use in enumerate(uses) if use is main)
    parts = (("after", uses[:place]), ("and", uses[place + 1 :]))
    named = (
        (word, _list_others([use for use in part if name_verb(use) != name_verb(main)], root))
        for word, part in parts
    )
    return " ".join(f"{word} {others}" for word, others in named if others)


def _list_others(uses: Sequence[StoredUse], root: str) -> str:
    """Return tools: a single one with what it was used upon, several with their number."""
    if len(uses) == 1:
        return f"{name_verb(uses[0])} {split_folder(name_object(uses[0], root))[1]}".rstrip()
    words = (
        verb if count == 1 else f"{count} \N{MULTIPLICATION SIGN} {verb}"
        for verb, count in Counter(map(name_verb, uses)).items()
    )
    return ", ".join(words)


def sum_known[Number: (int, float)](counts: Iterable[Number | None]) -> Number | None:
    """Return the sum of the numbers that are known, None where none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
