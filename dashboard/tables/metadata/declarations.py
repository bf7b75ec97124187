"""The format of hand-written declarations: heads of canned queries and ``tables.toml``."""

import tomllib
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

type Words = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class MetadataError(Exception):
    """Raised if a declaration is wrong. The message names its file and what to change."""


class Declaration(BaseModel):
    """A part of a declaration. Types are strict, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def parse[T: Declaration](kind: type[T], text: str, source: str) -> T:
    """Parse TOML as a declaration of type ``kind``. ``source`` is the name of its file.

    Raises MetadataError."""
    try:
        return kind.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise MetadataError(f"{source}: not valid TOML: {error}") from error
    except ValidationError as error:
        found = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise MetadataError(f"{source}: {'; '.join(found)}") from error
