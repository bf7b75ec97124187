"""Rules for estimating the tokens of parts of a prompt, from ``token_rules.toml``.

They only distribute what upstream has counted (``conversations.token_shares``)."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Literal

type TextKind = Literal["prose", "code", "json", "page_unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTokens:
    """The rules of one model. Sizes of images are in pixels; an unknown tool prompt is 0."""

    image_edge: int
    image_tokens: int
    tool_prompt: int = 0
    tool_prompt_forced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """All rules. ``models`` has (patterns, rules); the last one that matches a model is used."""

    image_patch: int
    image_unknown: int
    page: int
    bytes_per_token: Mapping[TextKind, float]
    models: tuple[tuple[tuple[str, ...], ModelTokens], ...]

    def find(self, model: str | None) -> ModelTokens:
        """Return the rules of a model, the general ones if it is unknown."""
        for patterns, found in reversed(self.models):
            if any(fnmatchcase(model or "", pattern) for pattern in patterns):
                return found
        raise LookupError("token_rules.toml has no entry for every model")


@cache
def read_token_rules() -> TokenRules:
    """Return the rules that are part of this program."""
    text = files("conversations").joinpath("token_rules.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    return TokenRules(
        image_patch=document["image_patch"],
        image_unknown=document["image_unknown"],
        page=document["page"],
        bytes_per_token=document["bytes_per_token"],
        models=tuple(
            (
                tuple(entry["match"]),
                ModelTokens(
                    **{k: v for k, v in entry.items() if k in ModelTokens.__dataclass_fields__}
                ),
            )
            for entry in document["models"]
        ),
    )
