"""Print what the changelog says of a release, for the page of that release.

    python -m tests.packaging.notes v0.1.0

Refuses a tag that is not the version of ``pyproject.toml``, and a version without a dated section.
It needs no library, so that a workflow can call it before anything is installed.
"""

import re
import sys
import tomllib

from tests import ROOT


def find_notes(tag: str, version: str, changelog: str) -> str:
    """Return the section of a version. Raises ValueError if there is none, or if the tag is another."""
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, and pyproject.toml has the version {version}")
    for section in re.split(r"^## ", changelog, flags=re.M)[1:]:
        title, _, text = section.partition("\n")
        if re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", title):
            return text.strip() + "\n"
    raise ValueError(f"CHANGELOG.md has no section '## {version} - YYYY-MM-DD'")


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    try:
        notes = find_notes(sys.argv[1], project["version"], (ROOT / "CHANGELOG.md").read_text())
    except ValueError as error:
        sys.exit(f"This commit cannot be released: {error}.")
    sys.stdout.write(notes)
