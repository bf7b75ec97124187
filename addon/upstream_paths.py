"""The paths of the upstream: which calls they are, which are billed, and which spellings are refused.

A path is sent on as it is written, so it must mean to every server what it means here. Servers differ in
what they do to a path before they look for it: they decode it, ignore case, ``;parameters``, blanks, dots
and file types at the end of a segment, resolve dot segments, join doubled slashes, fold letters, and drop
what is not ASCII. So each segment is read as the most lenient of them would. A path that is one of ``KNOWN``
in that reading, and not as it is written, is refused, and so is one that has no single reading. What is left
is the same path to all of them. Paths that nobody knows yet are forwarded, in plain spelling.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from addon import errors
from addon.destination import Destination
from addon.errors import Refusal
from store.spool.format import Record

_ANY = "*"
_PATH = re.compile(r"/v1(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+")
_SEVERAL_READINGS = re.compile(r"[/\\%?#\x00-\x1f\x7f-\x9f]")
_NEEDLESS = re.compile(r"%(?:2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee])")
_BLANKS = str.maketrans("", "", " +")
_END_OF_NAME = re.compile("[;.]")


@dataclass(frozen=True, slots=True)
class UpstreamCall:
    """A request to the upstream, by how it is treated.

    ``is_billed``: used-up budgets refuse it. ``record`` is what is made of it, None where nothing is."""

    destination: Destination
    is_billed: bool = False
    record: Record | None = None


@dataclass(frozen=True, slots=True)
class KnownPath:
    """A path by its segments, of which ``*`` is any one, and what posting to it and getting it is.
    ``is_family``: paths below it are meant as well."""

    segments: tuple[str, ...]
    posted: UpstreamCall
    got: UpstreamCall
    is_family: bool = False

    def covers(self, segments: Sequence[str]) -> bool:
        """Return whether these segments, each as it is written or as it is read, are this path."""
        own, length = self.segments, len(self.segments)
        if len(segments) != length and not (self.is_family and len(segments) > length):
            return False
        return all(
            wanted in (_ANY, segment) for wanted, segment in zip(own, segments, strict=False)
        )

    def __str__(self) -> str:
        return "/" + "/".join("<id>" if each == _ANY else each for each in self.segments)


_FREE = UpstreamCall(Destination.OTHER)
_BILLED = UpstreamCall(Destination.OTHER, is_billed=True)
# Each response that has one of these says what it has used so far.
_SESSION = replace(_FREE, record="session")
_SESSION_EVENTS = replace(_FREE, record="session_events")
_DREAM = replace(_FREE, record="dream")


def _know(
    path: str, posted: UpstreamCall, got: UpstreamCall = _FREE, *, is_family: bool = False
) -> KnownPath:
    return KnownPath(tuple(path.split("/")[1:]), posted, got, is_family)


_FREE_FAMILIES = (
    *("messages", "agents", "chat", "complete", "deployment_runs", "deployments", "dreams"),
    *("environments", "files", "memory_stores", "models", "organizations", "sessions", "skills"),
    *("tunnels", "user_profiles", "vaults"),
)
# The first that covers a path decides.
KNOWN = (
    _know("/v1/messages", UpstreamCall(Destination.MESSAGES, is_billed=True, record="messages")),
    _know("/v1/messages/count_tokens", UpstreamCall(Destination.COUNT_TOKENS)),
    _know("/v1/messages/batches", _BILLED),
    _know("/v1/messages/batches/*/results", _FREE, replace(_FREE, record="batch_results")),
    _know("/v1/complete", _BILLED),
    _know("/v1/chat/completions", replace(_BILLED, record="chat_completions")),
    # Sessions are billed by the tokens and hours of what is posted to them, or of what it sets going. An
    # update may lift the budget of a session, and give a deployment a schedule.
    _know("/v1/sessions", replace(_BILLED, record="session"), _SESSION),
    _know("/v1/sessions/*", replace(_BILLED, record="session"), _SESSION),
    _know("/v1/sessions/*/events", _BILLED, _SESSION_EVENTS),
    _know("/v1/sessions/*/events/stream", _FREE, _SESSION_EVENTS),
    _know("/v1/deployments", _BILLED),
    _know("/v1/deployments/*", _BILLED),
    _know("/v1/deployments/*/run", _BILLED),
    _know("/v1/deployments/*/unpause", _BILLED),
    _know("/v1/dreams", replace(_BILLED, record="dream"), _DREAM),
    _know("/v1/dreams/*", _FREE, _DREAM),
    *(_know(f"/v1/{name}", _FREE, is_family=True) for name in _FREE_FAMILIES),
)


def judge(method: str, path: str) -> UpstreamCall | Refusal:
    """Return what a request to a path of the upstream is, or why it is refused. ``path`` is without the
    query, exactly as it is sent on."""
    segments = path.split("/")[1:]
    try:
        is_plain = path.isascii() and "%" not in path
        texts = segments if is_plain else [_decode(segment) for segment in segments]
    except UnicodeDecodeError:
        return errors.bad_path("it percent-encodes bytes that are not UTF-8")
    names = [_read(text) for text in texts]
    fault = _find_fault(path, texts, names)
    if fault is not None:
        return errors.bad_path(fault)
    if _PATH.fullmatch(path) is None:
        return errors.UNKNOWN_PATH
    known = next((each for each in KNOWN if each.covers(names)), None)
    misspelling = _find_misspelling(path, segments, known)
    if misspelling is not None:
        return errors.bad_path(misspelling)
    if known is None:
        return _FREE
    return {"POST": known.posted, "GET": known.got}.get(method, _FREE)


def list_billed() -> list[str]:
    """Return the paths that are billed when something is posted there, with ``<id>`` for any segment."""
    return [str(each) for each in KNOWN if each.posted.is_billed]


def _decode(segment: str) -> str:
    """Return the text of a segment, with its letters in their plainest form. Raises UnicodeDecodeError."""
    return unicodedata.normalize("NFKD", unquote(segment, errors="strict"))


def _read(text: str) -> str:
    """Return a segment as the most lenient server reads it, which may be nothing."""
    if text.isascii():
        name = text.lower()
    else:  # upper case first: dotless and long letters have no other way to the plain one
        folded = unicodedata.normalize("NFKD", text.upper().casefold())
        name = folded.encode("ascii", "ignore").decode()
    return _END_OF_NAME.split(name.translate(_BLANKS), maxsplit=1)[0]


def _find_fault(path: str, texts: Sequence[str], names: Sequence[str]) -> str | None:
    """Return why a path has no single reading, or None."""
    if "#" in path:
        return "it has a fragment"
    if _SEVERAL_READINGS.search("".join(texts)):
        return "it has a backslash, a bad %, or an encoded slash, %, ?, # or control character"
    if any(text and not name for text, name in zip(texts, names, strict=True)):
        return (
            "it has dot segments, or a segment of blanks, parameters or non-ASCII characters alone"
        )
    if path.startswith("/v1/") and "//" in path:
        return "it has a doubled slash"
    return None


def _find_misspelling(path: str, segments: Sequence[str], known: KnownPath | None) -> str | None:
    """Return what is not plain about a path, or None. ``known`` is what it can be read as."""
    if known is not None and not known.covers(segments):
        return f"an upstream may read it as {known}; write {known}"
    needless = _NEEDLESS.search(path)
    if needless is not None:
        return f"it encodes what needs no encoding; write {unquote(needless[0])} for {needless[0]}"
    return None
