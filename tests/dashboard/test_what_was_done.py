import pytest
from hypothesis import given, strategies as st

from dashboard.what_was_done import (
    Deed,
    describe_deed,
    find_root,
    format_changes,
    split_folder,
)
from store.traces.calls.tool_uses import StoredUse


def use(tool: str | None, target: str | None = None, **fields: object) -> StoredUse:
    return StoredUse(tool=tool, target=target, **fields)  # type: ignore[arg-type]


def did(*uses: StoredUse, said: str | None = None, **options: str) -> Deed:
    found = describe_deed(uses, said, root="/home/ada/cab", **options)
    assert found is not None
    return found


def test_file_is_named_from_the_root_on() -> None:
    deed = did(
        use("Edit", "/home/ada/cab/cab/pricing/rules.py", plus=3, minus=1), said="I mend it."
    )
    assert (deed.verb, deed.folder, deed.object) == ("Edit", "cab/pricing/", "rules.py")
    assert (deed.plus, deed.minus, deed.says) == (3, 1, "I mend it.")
    assert deed.words == "cab/pricing/rules.py +3 \N{MINUS SIGN}1"


def test_file_elsewhere_keeps_its_path() -> None:
    deed = did(use("Read", "/etc/hosts"))
    assert (deed.folder, deed.object) == ("/etc/", "hosts")


@pytest.mark.parametrize("command", ["git log --oneline", "cab/**/*.py", r"is_night\(", "a/b c"])
def test_command_or_pattern_has_no_folder(command: str) -> None:
    deed = did(use("Bash", command))
    assert (deed.folder, deed.object) == ("", command)


def test_tool_of_a_server_is_in_the_object() -> None:
    deed = did(use("get_issue", "CAB-412", server="tracker"))
    assert (deed.verb, deed.object) == ("tracker", "get_issue CAB-412")


def test_several_uses_of_one_tool_are_one_verb() -> None:
    deed = did(*(use("Read", f"/home/ada/cab/{name}.py") for name in "abcde"))
    assert (deed.verb, deed.object, deed.more) == ("Read", "a.py, b.py, c.py and 2 more", "")


def test_same_target_is_named_once() -> None:
    assert (
        did(use("Read", "/home/ada/cab/x/a.py"), use("Read", "/home/ada/cab/x/a.py")).object
        == "a.py"
    )


def test_other_tools_are_counted() -> None:
    deed = did(use("Read", "a"), use("Bash", "ls"), use("Bash", "pwd"), use("Grep", "b"))
    assert deed.words == "a and 2 \N{MULTIPLICATION SIGN} Bash, Grep"


def test_failed_use_comes_first() -> None:
    deed = did(use("Read", "x/a"), use("Bash", "pytest", problem="exit 1"), use("Bash", "ls"))
    assert (deed.verb, deed.object, deed.more) == ("Bash", "pytest, ls", "after Read a")
    assert (deed.problem, deed.is_failed) == ("exit 1", True)


def test_use_that_changes_a_file_stands_for_others() -> None:
    uses = (use("Bash", "ls"), use("Edit", "/h/a/b.py", plus=3, minus=1), use("Bash", "pytest"))
    deed = did(*uses)
    assert (deed.verb, deed.object, deed.plus) == ("Edit", "b.py", 3)
    assert deed.more == "after Bash ls and Bash pytest"


def test_words_are_quoted_without_marks_of_markdown() -> None:
    deed = describe_deed((), "**Cause.** The key of `s3:PutObject` is *old*: 2 ** 3")
    assert deed is not None
    assert deed.says == "Cause. The key of s3:PutObject is *old*: 2 ** 3"


def test_failed_use_has_changed_nothing() -> None:
    deed = did(use("Edit", "a", plus=3, minus=1, problem="string not found"))
    assert (deed.plus, deed.minus) == (None, None)
    assert did(use("Edit", "a", plus=3), use("Edit", "b", plus=4, problem="no")).plus == 3


def test_problem_without_words_is_a_failure_too() -> None:
    assert did(use("Bash", "ls", problem="")).is_failed


def test_unnamed_tool_has_a_verb() -> None:
    assert did(use(None)).verb == "Tool"


def test_words_alone_are_an_answer() -> None:
    assert did(said="It is 12:00.") == Deed(verb="Answer", says="It is 12:00.")
    assert did(said="Wait.", said_verb="Says").verb == "Says"


def test_early_end_is_said() -> None:
    deed = did(said="It", stop_reason="max_tokens")
    assert (deed.problem, deed.is_failed) == ("stopped at the output limit", False)


def test_nothing_known_is_nothing_said() -> None:
    assert describe_deed([], None) is None
    assert describe_deed([], "") is None


@pytest.mark.parametrize(
    ("paths", "root"),
    [
        (["/a/b/c.py", "/a/b/d/e.py", "/a/b/f.py"], "/a/b"),
        (["/a/b/c.py"], "/a/b"),
        ([*["/a/b/c.py", "/a/d.py"] * 4, "/etc/hosts"], "/a"),
        (["/a/b.py", "/c/d.py"], ""),
        (["git /a/b", "/a/*.py", "a/b.py", None, ""], ""),
        (["/file"], ""),
        ([], ""),
        (["/h/a/cab/src/a.py"] * 9 + ["/h/a/cab/tests/a.py"], "/h/a/cab"),
        (["/h/a/cab/src/a.py"] * 9 + ["/h/a/.settings/a"], "/h/a/cab/src"),
    ],
)
def test_root_is_where_nearly_all_paths_are(paths: list[str | None], root: str) -> None:
    assert find_root(paths) == root


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("a/b/c.py", ("a/b/", "c.py")),
        ("c.py", ("", "c.py")),
        ("a/b/", ("", "a/b/")),
        ("https://example.org/a", ("", "https://example.org/a")),
    ],
)
def test_folder_stands_before_a_name(path: str, parts: tuple[str, str]) -> None:
    assert split_folder(path) == parts


def test_changes_leave_out_what_is_unknown() -> None:
    assert format_changes(1_200, None) == "+1,200"
    assert format_changes(0, 2) == "\N{MINUS SIGN}2"
    assert format_changes(None, None) == ""


_TEXT = st.none() | st.text(max_size=12) | st.sampled_from(["/a/b", "/a/c/d", "Read", "a b"])
_USES = st.builds(
    StoredUse,
    tool=_TEXT,
    server=_TEXT,
    target=_TEXT,
    problem=_TEXT,
    plus=st.none() | st.integers(0),
    minus=st.none() | st.integers(0),
)


@given(st.lists(_USES, max_size=6), _TEXT)
def test_any_uses_are_described(uses: list[StoredUse], said: str | None) -> None:
    root = find_root(each.target for each in uses)
    deed = describe_deed(uses, said, root=root)
    assert (deed is None) == (not uses and not said)
    if uses:
        assert deed is not None
        assert deed.verb
        assert deed.is_failed == any(each.problem is not None for each in uses)
