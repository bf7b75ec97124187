import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

from runtime import clock
from tests import ROOT


def test_a_line_begins_with_the_time_in_utc_and_the_process():
    code = "import logging; from runtime import logs; logs.configure('web'); logging.error('hello')"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", code],
        env=os.environ | {"TZ": "XYZ-9", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    match = re.fullmatch(r"(\S+ \S+Z) web      ERROR hello\n", done.stderr)
    assert match, done.stderr
    assert abs(clock.parse_instant(match[1]) - datetime.now(UTC)) < timedelta(hours=1)
