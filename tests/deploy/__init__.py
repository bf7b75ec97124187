"""The files for servers in ``deploy/``, and how tests read them."""

import re
import shlex
import tomllib
from typing import NamedTuple

from runtime.settings import list_settings
from tests import ROOT

DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VARIABLES = {setting.variable for setting in list_settings()}


class Instruction(NamedTuple):
    """An instruction of the Dockerfile. ``stage`` counts from 0."""

    stage: int
    name: str
    text: str


def read_dockerfile() -> list[Instruction]:
    """Return the instructions of the image, with their lines joined."""
    lines = [
        line
        for line in (DEPLOY / "Dockerfile").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    stage, instructions = -1, []
    for line in joined:
        name, _, text = line.partition(" ")
        stage += name == "FROM"
        instructions.append(Instruction(stage, name, text.strip()))
    return instructions


def read_environment(text: str) -> dict[str, str]:
    """Return the variables of an environment file. Quotes are as in a shell, for both readers of it."""
    pairs = (line.partition("=") for line in text.splitlines() if line and line[0] != "#")
    return {name: "".join(shlex.split(value)) for name, _, value in pairs}


def read_unit(name: str) -> dict[str, list[str]]:
    """Return the values of each key of a systemd unit, in the order in which they stand."""
    values: dict[str, list[str]] = {}
    for line in (DEPLOY / name).read_text().splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            values.setdefault(key, []).append(value)
    return values
