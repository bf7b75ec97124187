"""Pictures of every page with an organisation that looks real: light and dark, wide, on a tablet, and narrow.

python -m tests.browser.screenshots FOLDER [PAGE ...]
"""

import os
import sys
import tempfile
from pathlib import Path

from tests.browser.chromium import run_chromium, why_missing
from tests.browser.example import make_example
from tests.browser.site import run_site
from tests.browser.visitor import Visitor, new_visitor

SIZES = {"wide": (1280, 900), "tablet": (820, 1180), "narrow": (360, 800)}


def main(folder: str, *names: str) -> None:
    os.environ["TAXIMETER_SCREENSHOTS"] = folder
    with (
        tempfile.TemporaryDirectory() as data,
        run_site(Path(data)) as site,
        run_chromium() as driver,
        new_visitor(driver, site.url) as stranger,
        new_visitor(driver, site.url) as newcomer,
        new_visitor(driver, site.url) as owner,
    ):
        example = make_example(site, Path(data) / "planted")
        site.sign_in(newcomer, "new@nightcab.example")
        site.sign_in(owner, example.email)
        outside = {
            "sign-in": "/sign-in",
            "sign-in-link": site.make_link("someone@nightcab.example"),
            "sign-in-used": "/sign-in/link?token=used",
        }
        inside = {"new-home": "/", "new-settings": "/settings/endpoints", "new-traces": "/traces"}
        _take(stranger, outside, names)
        _take(newcomer, inside, names)
        _take(owner, example.pages(), names)


def _take(visitor: Visitor, pages: dict[str, str], names: tuple[str, ...]) -> None:
    for name, address in pages.items():
        if names and name not in names:
            continue
        for size, measures in SIZES.items():
            visitor.resize(*measures)
            for scheme in ("light", "dark"):
                visitor.prefer(scheme)
                visitor.open(address)
                if name == "call":
                    visitor.run(
                        "for (const d of document.querySelectorAll('details.earlier')) d.open = true"
                    )
                visitor.screenshot(f"{name}-{size}-{scheme}")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") or why_missing():
        sys.exit(why_missing() or __doc__)
    main(*sys.argv[1:])
