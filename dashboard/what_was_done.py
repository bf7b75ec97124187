"""One line about a call: verb, object, changed lines, problem, and words of the response.

Texts are as they are stored: when displayed, they must be escaped, and invisible characters made
visible, which templates do.
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
    """The parts of the line about a call. ``verb`` is a tool, an MCP server, ``ANSWER`` or ``SAYS``.
    ``folder`` is displayed before ``object`` and ends with a slash; it is "" if the object is not a
    file. ``more`` names the other tools. ``plus`` and ``minus`` are sums of changed lines over the uses
    that did not fail, None if unknown. ``says`` is a quotation of the response. ``problem`` says why a
    tool failed (``is_failed``), or why the response ended early."""

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
        """Return object, changed lines and other tools as one text, for a title."""
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
    """Return what a call did, None if neither tool uses nor words of the response are known.

    Of several tool uses, the line is about the first that failed, else the first that changed a file.
    ``root`` is the folder that paths are relative to (``find_root``); ``said_verb`` is the verb for a
    response without tools."""
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
    """Return the verb for a tool use: its MCP server, or the tool if it has no server."""
    return use.server or use.tool or _UNNAMED


def name_object(use: StoredUse, root: str = "") -> str:
    """Return the target of a tool use: a file path relative to ``root``, or another text.

    For a tool of an MCP server, the name of the tool comes before the target."""
    target = shorten_path(use.target or "", root)
    return f"{use.tool or ''} {target}".strip() if use.server else target


def shorten_path(target: str, root: str) -> str:
    """Return a path relative to ``root`` if it is below that folder; any other text is unchanged."""
    below = target.removeprefix(f"{root}/") if root else target
    return below or target


def find_root(targets: Iterable[str | None]) -> str:
    """Return the folder that nearly all absolute paths are below, "" if there is none.

    It has no slash at its end. It is presumably the folder of the project."""
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
    """Return numbers of changed lines with signs for added and removed, without unknown ones and 0."""
    return " ".join(
        f"{sign}{format_count(count)}"
        for sign, count in (("+", plus), ("\N{MINUS SIGN}", minus))
        if count
    )


def split_folder(path: str) -> tuple[str, str]:
    """Return the folder of a path, with its slash, and its name; ("", text) for a text that is not a path."""
    if "://" in path or _NO_PATH & set(path):
        return "", path
    folder, slash, name = path.rpartition("/")
    return (folder + slash, name) if name else ("", path)


def _is_path(target: str) -> bool:
    return target.startswith("/") and not _NO_PATH & set(target)


def _name_objects(uses: Sequence[StoredUse], root: str) -> tuple[str, str]:
    """Return the folder and the name of the single target of these uses, or "" and the names of several."""
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
    """Return a text without the Markdown marks for bold text and code."""
    return _MARKS.sub(lambda found: found[1] or found[2], text)


def _name_others(uses: Sequence[StoredUse], main: StoredUse, root: str) -> str:
    """Return the other tools that were used before and after the main one, as a text."""
    place = next(place for place, use in enumerate(uses) if use is main)
    parts = (("after", uses[:place]), ("and", uses[place + 1 :]))
    named = (
        (word, _list_others([use for use in part if name_verb(use) != name_verb(main)], root))
        for word, part in parts
    )
    return " ".join(f"{word} {others}" for word, others in named if others)


def _list_others(uses: Sequence[StoredUse], root: str) -> str:
    """Return tools as a text: a single use with its target, several with the number of uses of each."""
    if len(uses) == 1:
        return f"{name_verb(uses[0])} {split_folder(name_object(uses[0], root))[1]}".rstrip()
    words = (
        verb if count == 1 else f"{count} \N{MULTIPLICATION SIGN} {verb}"
        for verb, count in Counter(map(name_verb, uses)).items()
    )
    return ", ".join(words)


def sum_known[Number: (int, float)](counts: Iterable[Number | None]) -> Number | None:
    """Return the sum of the known numbers, None if none is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
