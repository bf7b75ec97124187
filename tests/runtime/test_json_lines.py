import json
import logging

import pytest

from manage.supervision.children import MAX_LINE_BYTES
from runtime.json_lines import JsonFormatter, format_json_line, make_line_format, wrap_line
from runtime.safe_text import terminal_line


def test_a_line_has_the_known_fields_beside_time_level_process_and_message():
    line = json.loads(format_json_line("up", "info", "Stopped.", status=0, error=None))
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "process": "up", "message": "Stopped.", "status": 0}


def test_a_line_that_is_json_already_is_not_wrapped_again():
    line = format_json_line("web", "warning", "{}")
    assert wrap_line("web", line) == line


@pytest.mark.parametrize("text", ["Traceback (most recent call last):", "{not json", "[1]", ""])
def test_a_line_that_a_dying_process_printed_becomes_an_error_of_that_process(text):
    line = json.loads(wrap_line("recorder", text))
    assert (line["process"], line["level"], line["message"]) == ("recorder", "error", text)


def test_lines_pass_a_terminal_unchanged_whatever_they_quote():
    line = format_json_line("web", "error", "\x1b[2J\u202e\u2028é\ud800")
    assert terminal_line(line) == line
    assert json.loads(line)["message"] == "\x1b[2J\u202e\u2028é\ud800"


def test_the_longest_record_is_a_line_that_the_supervisor_reads():
    text = "\N{MONEY BAG}" * 100_000
    record = logging.LogRecord("a", logging.ERROR, "", 1, text, (), None)
    assert len(JsonFormatter("web").format(record).encode()) <= MAX_LINE_BYTES
    assert len(format_json_line("web", "info", text).encode()) <= MAX_LINE_BYTES


def test_a_long_traceback_keeps_its_end():
    error = ValueError("x" * 10_000 + " the end")
    record = logging.LogRecord("a", logging.ERROR, "", 1, "failed", (), (ValueError, error, None))
    exception = json.loads(JsonFormatter("web").format(record))["exception"]
    assert exception.startswith("…x")
    assert exception.endswith(" the end")


def test_links_on_the_terminal_are_one_object_in_json_and_as_they_are_in_text():
    text = "\nSign in:\nhttp://127.0.0.1:8080/sign-in/link?token=1\n"
    assert make_line_format("web", "text")(text) == text
    line = json.loads(make_line_format("web", "json")(text))
    assert line["message"] == text.strip("\n")
