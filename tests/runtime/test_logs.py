import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from runtime import clock, logs
from runtime.settings import list_settings
from tests import ROOT

CONFIGURE = {"configure": "configure('web')", "fork": "configure_without_thread('web')"}


def log(configure, statement, **variables):
    """Return what a process that configures logging writes to its standard error."""
    code = f"import logging; from runtime import logs; logs.{configure}; {statement}"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", code],
        env=os.environ | {"TZ": "XYZ-9", "PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_a_line_begins_with_the_time_in_utc_and_the_process():
    line = log(CONFIGURE["configure"], "logging.error('hello')")
    match = re.fullmatch(r"(\S+ \S+Z) web      ERROR hello\n", line)
    assert match, line
    assert abs(clock.parse_instant(match[1]) - datetime.now(UTC)) < timedelta(hours=1)


@pytest.mark.parametrize("configure", CONFIGURE.values(), ids=CONFIGURE)
def test_in_json_a_record_with_its_exception_is_one_object_on_one_line(configure):
    line = log(
        configure,
        "logging.getLogger('a.b').error('two\\nlines', exc_info=ValueError('bad \\x1b'))",
        TAXIMETER_LOG_FORMAT="json",
    )
    assert line.isascii()
    assert line.count("\n") == 1
    record = json.loads(line)
    assert abs(clock.parse_instant(record.pop("time")) - datetime.now(UTC)) < timedelta(hours=1)
    assert record == {
        "level": "error", "process": "web", "logger": "a.b",
        "message": "two\nlines", "exception": "ValueError: bad \x1b",
    }  # fmt: skip


def test_the_variable_that_the_formatter_reads_is_that_of_the_setting():
    assert logs.FORMAT_VARIABLE in {setting.variable for setting in list_settings()}
