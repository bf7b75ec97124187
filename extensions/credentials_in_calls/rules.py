"""The formats of credentials that are searched for in traces: only formats that nothing else has.

Most are those of the package detect-secrets. Importing its plugins would load an HTTP client into this
process, since they can also try a credential at its issuer; so the regular expressions are read from
its source. A few formats are ours, for credentials that it does not know. Entropy and names of
variables are not used, because traces are full of hashes and ids."""

import ast
import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from wire.json_reading import parse_object

MAX_FOUND = 50  # of one text
MAX_VALUE_CHARS = 4_000
SHOWN_CHARS = 6
_PRIVATE_KEY, _JWT = "Private key", "JSON Web Token"
# A token ends where none of its characters follow, whatever length its rule knows.
_MORE = re.compile(r"[A-Za-z0-9_-]*+")
_MORE_OF_JWT = re.compile(r"[A-Za-z0-9_.-]*+")
_KEY_BODY = re.compile(r"[A-Z0-9 ]*-----\s*+((?:[A-Za-z0-9+/=]++\s*+)+)")
_MIN_KEY_CHARS = 60
_NOT_WITHIN = (
    r"(?<![A-Za-z0-9_-])"  # without it, a long run of such characters takes quadratic time
)


class Found(NamedTuple):
    """A credential in a text. ``shown`` is its beginning, ``probe`` a part of it without white space."""

    kind: str
    value: str
    shown: str
    probe: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A format of credentials. Only texts that contain one of ``needs`` are searched for it."""

    kind: str
    needs: tuple[str, ...]
    pattern: re.Pattern[str]


_OF_GITLAB = (
    *("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "glcbt-", "glimt-", "glptt-", "glagent-"),
    *("gloas-", "GR1348941"),
)
# By plugin: the kind, what the text must have, and which of its expressions.
_OF_PACKAGE: dict[str, tuple[str, tuple[str, ...], slice]] = {
    "aws": ("AWS access key", ("AKIA", "ASIA", "ABIA", "ACCA", "A3T"), slice(0, 1)),
    "azure_storage_key": ("Azure storage key", ("AccountKey=",), slice(None)),
    "github_token": ("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), slice(None)),
    "gitlab_token": ("GitLab token", _OF_GITLAB, slice(None)),
    "openai": ("OpenAI key", ("T3BlbkFJ",), slice(None)),
    "private_key": (_PRIVATE_KEY, ("BEGIN ",), slice(0, 6)),
    "pypi_token": ("PyPI token", ("pypi-",), slice(None)),
    "sendgrid": ("SendGrid key", ("SG.",), slice(None)),
    "slack": ("Slack token", ("xox", "hooks.slack.com"), slice(None)),
    "square_oauth": ("Square secret", ("sq0csp-",), slice(None)),
    "stripe": ("Stripe key", ("k_live_",), slice(None)),
}
# The kind, how it begins, and the expression for what follows.
_OURS = (
    ("Anthropic key", "sk-ant-", r"(?:api|oat|ort|admin|sid)\d\d-[A-Za-z0-9_-]{20,}"),
    *(
        ("OpenAI key", f"sk-{kind}-", r"[A-Za-z0-9_-]{40,}")
        for kind in ("proj", "svcacct", "admin")
    ),
    ("GitHub token", "github_pat_", r"[A-Za-z0-9_]{36,}"),
    ("Google API key", "AIza", r"[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),
    ("npm token", "npm_", r"[A-Za-z0-9]{36}(?![A-Za-z0-9_])"),
    ("Taximeter service API key", "sk_", r"[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])"),
    (_JWT, "eyJ", r"[A-Za-z0-9_-]{8,2000}+\.eyJ[A-Za-z0-9_-]{8,}+\."),
)


_RARE = "JKBGCTxk-_=."


class RulesMissingError(Exception):
    """The package with the rules is missing, or is a version that this module does not know."""


@cache
def load_rules() -> tuple[Rule, ...]:
    """Return all rules. Raises RulesMissingError."""
    # What comes first is a literal, which is found ten times as quickly as what is no part of a word.
    rules = [
        Rule(kind, (begin,), re.compile(f"{begin}{_NOT_WITHIN[:-1]}{begin})(?:{pattern})"))
        for kind, begin, pattern in _OURS
    ]
    for plugin, (kind, needs, chosen) in _OF_PACKAGE.items():
        for pattern in _read_patterns(plugin)[chosen]:
            guard = "" if kind == _PRIVATE_KEY else _NOT_WITHIN
            rules.append(Rule(kind, needs, re.compile(f"{guard}(?:{pattern})")))
    return tuple(rules)


@cache
def _load_groups() -> dict[tuple[str, ...], list[Rule]]:
    """Return the rules, grouped by their ``needs``."""
    groups: dict[tuple[str, ...], list[Rule]] = {}
    for rule in load_rules():
        groups.setdefault(rule.needs, []).append(rule)
    return groups


@cache
def _compile_needs() -> re.Pattern[str]:
    """Return a regular expression that matches any of the ``needs`` of all rules.

    For our own rules it also matches what follows. Searching for a rare character and checking its
    neighbours takes a quarter of the time of searching for each literal."""
    branches: dict[str, list[tuple[str, str]]] = {}
    follows = {begin: pattern for _, begin, pattern in _OURS}  # "sk_" alone is in each "task_"
    for need in sorted({need for needs in _load_groups() for need in needs}):
        place = min(range(len(need)), key=lambda n: _find_rank(need[n]))
        rest = re.escape(need[place + 1 :]) + follows.get(need, "")
        branches.setdefault(need[place], []).append((need[: place + 1], rest))
    return re.compile("|".join(_join(mark, needs) for mark, needs in branches.items()))


def _join(mark: str, needs: Sequence[tuple[str, str]]) -> str:
    """Return a regular expression for ``needs`` around the rare character ``mark``.

    Each need is a pair: the text up to the character, and an expression for the rest. The character
    before ``mark`` is checked once for all of them, which rejects most places."""
    each = "|".join(f"(?<={re.escape(begin)}){rest}" for begin, rest in needs)
    before = "".join(sorted({begin[-2:-1] for begin, _ in needs}))
    is_before = all(len(begin) > 1 for begin, _ in needs)
    guard = f"(?<=[{re.escape(before)}]{re.escape(mark)})" if is_before else ""
    return f"{re.escape(mark)}{guard}(?:{each})"


def _find_rank(character: str) -> int:
    """Return a number that is lower for characters that are rarer in texts."""
    place = _RARE.find(character)
    return place if place >= 0 else len(_RARE) + character.islower()


def may_have_secrets(text: str) -> bool:
    """Return whether a text, or a string in the JSON that it is, may contain a credential.

    It may if it contains what a rule needs; rules of ours need text that JSON never escapes. Raises
    RulesMissingError."""
    return _compile_needs().search(text) is not None


def find_secrets(text: str) -> Iterator[Found]:
    """Yield the credentials in a text, each once, at most ``MAX_FOUND``. Raises RulesMissingError."""
    seen: set[str] = set()
    for needs, rules in _load_groups().items():
        if not any(each in text for each in needs):
            continue
        for rule, match in _iter_matches(rules, text):
            found = _read_match(rule.kind, text, match)
            if found is None or found.value in seen:
                continue
            seen.add(found.value)
            yield found
            if len(seen) == MAX_FOUND:
                return


def _iter_matches(rules: Sequence[Rule], text: str) -> Iterator[tuple[Rule, re.Match[str]]]:
    for rule in rules:
        for match in rule.pattern.finditer(text):
            yield rule, match


def _read_match(kind: str, text: str, match: re.Match[str]) -> Found | None:
    """Return the credential that begins at a match, or None if it only looks like one."""
    if kind == _PRIVATE_KEY:
        return _read_private_key(text, match)
    more = _MORE_OF_JWT if kind == _JWT else _MORE
    end = more.match(text, match.end(), match.start() + MAX_VALUE_CHARS)
    value = text[match.start() : end.end() if end else match.end()]
    if kind == _JWT and not _is_jwt(value):
        return None
    if value.endswith("EXAMPLE"):  # AWS's own example key, which is in much documentation
        return None
    return Found(kind, value, f"{value[:SHOWN_CHARS]}…", value)


def _read_private_key(text: str, match: re.Match[str]) -> Found | None:
    """Return the private key at a match, None if only its header line is quoted."""
    body = _KEY_BODY.match(text, match.end(), match.end() + MAX_VALUE_CHARS)
    value = "" if body is None else "".join(body[1].split())
    if len(value) < _MIN_KEY_CHARS:
        return None
    return Found(_PRIVATE_KEY, value, f"-----{match[0]}…", value[:40])


def _is_jwt(value: str) -> bool:
    header = value.partition(".")[0]
    try:
        decoded = base64.urlsafe_b64decode(header + "=" * (-len(header) % 4))
    except (ValueError, binascii.Error):
        return False
    return "alg" in (parse_object(decoded) or {})


def _read_patterns(plugin: str) -> Sequence[str]:
    """Return the regular expressions in the source of a plugin, in order. Raises RulesMissingError."""
    spec = find_spec("detect_secrets")  # which does not import it
    if spec is None or spec.origin is None:
        raise RulesMissingError("detect-secrets is not installed")
    try:
        source = (Path(spec.origin).parent / "plugins" / f"{plugin}.py").read_text()
        tree = ast.parse(source)
    except (OSError, SyntaxError) as error:
        raise RulesMissingError(f"detect-secrets has no plugin {plugin}") from error
    patterns = [
        each.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_denylist(node)
        for each in ast.walk(node.value)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    if not patterns:
        raise RulesMissingError(f"the plugin {plugin} of detect-secrets has no rules")
    return patterns


def _is_denylist(node: ast.Assign) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "denylist" for each in node.targets)
