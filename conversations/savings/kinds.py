"""The kinds of findings, in the order in which they claim tokens, with their texts (``kinds.toml``)."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

CLAUDE_CODE = "claude-cli"  # as the client names itself
MIN_CENTS, MIN_TOKENS = 1.0, 2_000  # a smaller finding is only counted: "and 14 smaller, $0.02"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of finding; ``kinds.toml`` says what the fields mean."""

    name: str
    title: str
    remedy: str
    formula: str
    is_saving: bool
    is_measured: bool
    subject: str = ""
    remedies: Mapping[str, str] = field(default_factory=dict)
    claude_code: Mapping[str, str] = field(default_factory=dict)

    def find_remedy(self, subject: str, client: str | None) -> str:
        """Return the advice that would have avoided a finding about ``subject``, for users of ``client``."""
        if client is not None and client.startswith(CLAUDE_CODE):
            advice = self.claude_code.get(subject) or self.claude_code.get("any")
            if advice is not None:
                return advice
        return self.remedies.get(subject, self.remedy)


def _read_kinds() -> Mapping[str, Kind]:
    text = files("conversations.savings").joinpath("kinds.toml").read_text(encoding="utf-8")
    return {entry["name"]: Kind(**entry) for entry in tomllib.loads(text)["kinds"]}


KINDS: Mapping[str, Kind] = _read_kinds()
CACHE_BREAK = KINDS["cache_break"]
IDLE_GAP = KINDS["idle_gap"]
LONG_GAP = KINDS["long_gap"]
NEVER_CACHED = KINDS["never_cached"]
NEVER_READ = KINDS["never_read"]
NEEDLESS_HOUR = KINDS["needless_hour"]
UNUSED_TOOLS = KINDS["unused_tools"]
REPEATED_RESULT = KINDS["repeated_result"]
FAILED_CALL = KINDS["failed_call"]
CLIENT_TOOLS = KINDS["client_tools"]
LARGE_RESULT = KINDS["large_result"]
# What these are made from is in bodies, which retention may remove before the calls.
FROM_BODIES = tuple(
    kind.name for kind in (UNUSED_TOOLS, CLIENT_TOOLS, REPEATED_RESULT, LARGE_RESULT)
)
AVOIDABLE = tuple(kind.name for kind in KINDS.values() if kind.is_saving)
