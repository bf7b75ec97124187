"""The pictures of the documents are those that one command makes."""

import re

from tests import ROOT
from tests.browser.pictures import FOLDER, IN_FLIGHT, PICTURES, take_pictures

MADE = {IN_FLIGHT, *PICTURES}


def test_every_picture_of_the_documents_is_made_by_the_command_and_none_is_left_over():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {
        name
        for page in pages
        for name in re.findall(r"\]\((?:docs/)?screenshots/(\S+)\.webp\)", page.read_text())
    }
    assert shown == MADE
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.webp" for name in MADE}


def test_a_picture_is_taken_of_the_demo(driver, tmp_path):
    take_pictures(driver, tmp_path, ["compare"], pace=0)
    [path] = tmp_path.iterdir()
    assert path.name == "compare.webp"
    assert path.read_bytes()[8:12] == b"WEBP"
