"""``python -m tests.hostile``: the attack programme in its long form.

Each case runs while other clients call; the report says whether it did harm, how long the others waited,
and whether a call of theirs was lost. It ends with status 1 if a case was harmful or a call was lost.
"""

import argparse
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.hostile.programme import Programme


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there as well")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each of the long cases")
    parser.add_argument(
        "-k", default="", metavar="WORDS", help="only cases with these in their name"
    )
    given = parser.parse_args()
    programme = Programme(given.seconds)
    # A case that fails leaves sockets open, which is no failure of its own.
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:unraisableexception",
        "-n",
        "0",
        "-m",
        "live",
        "-k",
        given.k,
    ]
    options += ["-o", "python_files=test_*.py long_*.py", str(ROOT / "tests" / "hostile")]
    status = pytest.main(options, plugins=[programme])
    report = programme.report()
    print(f"\n{report}")
    if given.json is not None:
        report.write(given.json)
    return int(bool(status or report.harmful or report.lost or report.double))


if __name__ == "__main__":
    sys.exit(main())
