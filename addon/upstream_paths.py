"""The paths of the upstream: which are calls, which are billed, and which spellings are refused.

A path is forwarded as written, so it must mean the same to every server. Before servers look up a
path, some of them decode it, ignore case, ``;parameters``, blanks, or dots and file types at the end
of a segment, resolve dot segments, join doubled slashes, fold letters, or drop non-ASCII characters.
So each segment is read as the most lenient server would. A path is refused if it is one of ``KNOWN``
in that reading but not as written, or if it has no single reading. Any other path is the same to all
servers. Paths that are not known yet are forwarded if their spelling is plain."""

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
    """The treatment of a request to the upstream.

    ``is_billed``: used-up budgets refuse it. ``record`` is the kind of record that the exchange
    becomes, None for none."""

    destination: Destination
    is_billed: bool = False
    record: Record | None = None


@dataclass(frozen=True, slots=True)
class KnownPath:
    """A known path as a list of segments, and the treatment of POST and GET there.

    The segment ``*`` matches any one. ``is_family``: paths below it match too."""

    segments: tuple[str, ...]
    posted: UpstreamCall
    got: UpstreamCall
    is_family: bool = False

    def covers(self, segments: Sequence[str]) -> bool:
        """Return whether a path with these segments matches this one."""
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
    """Return the treatment of a request to the upstream, or its refusal.

    ``path`` is without the query, exactly as it is forwarded."""
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
    """Return the paths where POST is billed, with ``<id>`` for any segment."""
    return [str(each) for each in KNOWN if each.posted.is_billed]


def _decode(segment: str) -> str:
    """Return a segment percent-decoded and in the normal form NFKD. Raises UnicodeDecodeError."""
    return unicodedata.normalize("NFKD", unquote(segment, errors="strict"))


def _read(text: str) -> str:
    """Return a segment as the most lenient server would read it, which may be empty."""
    if text.isascii():
        name = text.lower()
    else:  # upper case first: dotless and long letters have no other way to the plain one
        folded = unicodedata.normalize("NFKD", text.upper().casefold())
        name = folded.encode("ascii", "ignore").decode()
    return _END_OF_NAME.split(name.translate(_BLANKS), maxsplit=1)[0]


def _find_fault(path: str, texts: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the reason why servers may read a path in different ways, or None."""
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
    """Return a description of what is not plain in a path, or None. ``known`` is a path it can be read as."""
    if known is not None and not known.covers(segments):
        return f"an upstream may read it as {known}; write {known}"
    needless = _NEEDLESS.search(path)
    if needless is not None:
        return f"it encodes what needs no encoding; write {unquote(needless[0])} for {needless[0]}"
    return None
