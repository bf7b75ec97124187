"""The user, the project and the tags of a call, as its client names them in headers.

They are not verified: they group calls in reports, and no call is refused or allowed because of
them. A user and a project have 1 to 64 characters, a tag 1 to 40: letters and digits of ASCII, and
``. _ : @ / + -``. Tags are in lower case; ``env:prod`` is a tag with a key. Values that break a
rule are left out and counted, so that people find out why a name is missing. If our headers are
absent, LiteLLM's headers with the same meaning are used."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import orjson

MAX_NAME_CHARS, MAX_TAG_CHARS, MAX_TAGS = 64, 40, 10
CHARACTERS = "letters, digits and . _ : @ / + -"
USER, PROJECT = "user", "project"
# Headers by lowercase name, the first one that is there counts.
USER_HEADERS = (b"x-taximeter-user", b"x-litellm-customer-id", b"x-litellm-end-user-id")
PROJECT_HEADERS = (b"x-taximeter-project",)
TAG_HEADERS = (b"x-taximeter-tags", b"x-litellm-tags")
HEADERS = frozenset((*USER_HEADERS, *PROJECT_HEADERS, *TAG_HEADERS))
# Those that are meant for us, which are read also where nothing else that people write is kept.
OWN_HEADERS = frozenset(name for name in HEADERS if name.startswith(b"x-taximeter-"))

_KEY_END = ":"
_NAME = re.compile(rf"[A-Za-z0-9._:@/+-]{{1,{MAX_NAME_CHARS}}}", re.ASCII)
_TAG = re.compile(rf"[a-z0-9._:@/+-]{{1,{MAX_TAG_CHARS}}}", re.ASCII)
_OTHERS = re.compile(r"[^A-Za-z0-9._:@/+-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The user, project and tags of a call. ``tags`` are sorted and unique.

    ``left_out`` is the number of users, projects and tags that break a rule."""

    user: str | None = None
    project: str | None = None
    tags: tuple[str, ...] = ()
    left_out: int = 0


NOTHING = Attribution()

type PartKind = Literal["user", "project", "tag"]


@dataclass(frozen=True, slots=True)
class Part:
    """The calls of a user, of a project, or with a tag."""

    kind: PartKind
    value: str

    @property
    def pair(self) -> tuple[str, str]:
        """Return the pair (name, value) that ``list_pairs`` returns for this part."""
        return split_tag(self.value) if self.kind == "tag" else (self.kind, self.value)

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"


def check_part(kind: PartKind, value: str) -> Part:
    """Return the user, project or tag ``value`` as a part. Raises ValueError if it breaks a rule."""
    if kind == "tag":
        found = keep_valid(None, None, write_tags([value])).tags
        if len(found) == 1:
            return Part(kind, found[0])
        raise ValueError(
            f"a tag has 1 to {MAX_TAG_CHARS} {CHARACTERS}, and not the key user or project"
        )
    if _NAME.fullmatch(value) is None:
        raise ValueError(f"a {kind} has 1 to {MAX_NAME_CHARS} {CHARACTERS}")
    return Part(kind, value)


def read_attribution(
    named: Mapping[bytes, Sequence[str]], may_be_kept: Callable[[str], bool]
) -> Attribution:
    """Return the attribution in headers, which are given by lowercase name with all their values.

    ``may_be_kept`` returns whether a value may be stored. Never raises."""
    user, is_user_wrong = _read_name(_first(named, USER_HEADERS), may_be_kept)
    project, is_project_wrong = _read_name(_first(named, PROJECT_HEADERS), may_be_kept)
    tags, wrong_tags = _read_tags(_first(named, TAG_HEADERS), may_be_kept)
    return Attribution(
        user=user,
        project=project,
        tags=tags,
        left_out=is_user_wrong + is_project_wrong + wrong_tags,
    )


def write_tags(tags: Iterable[str]) -> str | None:
    """Return tags in stored form: a JSON list, or None without tags."""
    listed = list(tags)
    return orjson.dumps(listed).decode() if listed else None


def parse_tags(stored: str | None) -> list[str]:
    """Return the tags in a stored list; empty for any other text. Never raises."""
    try:
        found = orjson.loads(stored or "[]")
    except ValueError:
        return []
    return [each for each in found if type(each) is str] if type(found) is list else []


def keep_valid(user: str | None, project: str | None, stored_tags: str | None) -> Attribution:
    """Return those values that obey the rules. They come from elsewhere than headers."""
    values = {
        USER_HEADERS[0]: [user] if user else [],
        PROJECT_HEADERS[0]: [project] if project else [],
        TAG_HEADERS[0]: parse_tags(stored_tags),
    }
    return read_attribution({name: each for name, each in values.items() if each}, lambda _: True)


def check_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags sorted and unique. Raises ValueError, which states the violated rule."""
    found = sorted({check_part("tag", tag).value for tag in tags})
    if len(found) > MAX_TAGS:
        raise ValueError(f"a call has at most {MAX_TAGS} tags, and these are {len(found)}")
    return tuple(found)


def make_valid(text: str) -> str:
    """Return a text with invalid characters replaced by hyphens. The caller cuts it to length."""
    return _OTHERS.sub("-", text)


def fill(own: Attribution, of_run: Attribution) -> Attribution:
    """Return the attribution of a call, with missing values taken from that of its run."""
    return Attribution(
        user=own.user or of_run.user,
        project=own.project or of_run.project,
        tags=own.tags or of_run.tags,
        left_out=own.left_out,
    )


def split_tag(tag: str) -> tuple[str, str]:
    """Return (key, value) of a tag; a tag without a key, or without a value, has the value ""."""
    key, _, value = tag.partition(_KEY_END)
    return (key, value) if key and value else (tag, "")


def list_pairs(user: str | None, project: str | None, tags: Iterable[str]) -> list[tuple[str, str]]:
    """Return user, project and tags as (name, value) pairs."""
    named = [(name, value) for name, value in ((USER, user), (PROJECT, project)) if value]
    return named + [split_tag(tag) for tag in tags]


def _first(named: Mapping[bytes, Sequence[str]], names: Iterable[bytes]) -> Sequence[str]:
    return next((named[name] for name in names if name in named), ())


def _read_name(
    values: Sequence[str], may_be_kept: Callable[[str], bool]
) -> tuple[str | None, bool]:
    """Return the first of the values if it obeys the rules, and whether it breaks one."""
    value = values[0].strip() if values else ""
    is_right = _NAME.fullmatch(value) is not None and may_be_kept(value)
    return (value, False) if is_right else (None, bool(value))


def _read_tags(
    values: Sequence[str], may_be_kept: Callable[[str], bool]
) -> tuple[tuple[str, ...], int]:
    """Return the first ``MAX_TAGS`` valid tags, sorted, and how many were left out."""
    given = list(_iter_tags(values))
    right = [tag for tag in given if _is_tag(tag) and may_be_kept(tag)]
    unique = list(dict.fromkeys(right))
    wrong = len(given) - len(right)
    return tuple(sorted(unique[:MAX_TAGS])), wrong + max(0, len(unique) - MAX_TAGS)


def _iter_tags(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        for part in value.split(","):
            if tag := part.strip().lower():
                yield tag


def _is_tag(tag: str) -> bool:
    key, colon, _ = tag.partition(_KEY_END)
    return _TAG.fullmatch(tag) is not None and not (colon and key in (USER, PROJECT))
