from runtime.child_troubles import (
    MAX_LINE_CHARACTERS,
    MAX_LINES,
    ChildTrouble,
    read_troubles,
    trim_lines,
    write_troubles,
)

TROUBLE = ChildTrouble(
    name="recorder", status=1, deaths=3, pause_s=0.8, last_lines=("first", "second")
)


def test_what_was_written_is_read_and_only_its_owner_can(tmp_path):
    write_troubles(tmp_path, [TROUBLE])
    assert read_troubles(tmp_path) == [TROUBLE]
    assert (tmp_path / "children.json").stat().st_mode & 0o777 == 0o600


def test_without_troubles_there_is_no_file(tmp_path):
    write_troubles(tmp_path, [TROUBLE])
    write_troubles(tmp_path, [])
    assert list(tmp_path.iterdir()) == []
    assert read_troubles(tmp_path) == []


def test_a_file_that_is_something_else_says_nothing(tmp_path):
    for text in ("{", "[1]", '[{"name": "web"}]'):
        (tmp_path / "children.json").write_text(text)
        assert read_troubles(tmp_path) == []


def test_a_trouble_is_a_sentence_for_the_log_and_for_healthz():
    assert str(TROUBLE) == (
        "the recorder process exited with status 1 (3 times in a row) and is restarted in 0.8 s"
    )
    killed = ChildTrouble(name="web", status=-9, deaths=1, pause_s=0.2)
    assert str(killed) == "the web process was killed by signal 9 and is restarted in 0.2 s"


def test_last_lines_are_few_and_short():
    lines = trim_lines(["x" * 10_000] * 50)
    assert len(lines) == MAX_LINES
    assert all(len(line) == MAX_LINE_CHARACTERS for line in lines)
