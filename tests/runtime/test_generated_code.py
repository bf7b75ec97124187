"""Data classes whose code comes from files."""

import dataclasses
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from runtime import generated_code, loading
from runtime.generated_code import kept_in


class Compilations:
    """Counts what is compiled."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return compile(*args, **kwargs)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> Compilations:
    counting = Compilations()
    monkeypatch.setattr(generated_code, "compile", counting, raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return counting


def make_class(*further: str) -> type[Any]:
    fields: list[Any] = [
        *(("x", int), ("y", int, 0), ("of", list[int], dataclasses.field(default_factory=list))),
        *((name, int, 1) for name in further),
    ]
    return dataclasses.make_dataclass("Point", fields, frozen=True, order=True, slots=True)


def check(point: type[Any]) -> None:
    assert repr(point(1)) == "Point(x=1, y=0, of=[])"
    assert point(1, of=[3]) == point(1, 0, [3]) < point(2)
    assert dataclasses.replace(point(1), y=5).y == 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        point(1).x = 2
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        point()


def test_a_class_is_the_same_with_code_from_a_file_and_nothing_is_compiled(
    tmp_path: Path, compilations: Compilations
):
    with kept_in(tmp_path / "code"):
        check(make_class())
    first = compilations.count
    assert first > 0
    with kept_in(tmp_path / "code"):
        point = make_class()
    assert compilations.count == first
    check(point)


def test_a_class_that_has_changed_is_compiled_anew_and_the_file_forgets_the_old_one(
    tmp_path: Path, compilations: Compilations
):
    for further, name in ((("z",), "code"), ((), "code"), ((), "fresh")):
        with kept_in(tmp_path / name):
            point = make_class(*further)
        assert [each.name for each in dataclasses.fields(point)] == ["x", "y", "of", *further]
    assert (tmp_path / "code").stat().st_size == (tmp_path / "fresh").stat().st_size


@pytest.mark.parametrize("damage", [b"", b"\xff" * 30, None])
def test_a_damaged_file_is_written_anew(
    tmp_path: Path, compilations: Compilations, damage: bytes | None
):
    path = tmp_path / "code"
    with kept_in(path):
        make_class()
    whole = path.read_bytes()
    one_bit = bytearray(whole)
    one_bit[len(whole) // 2] ^= 1
    path.write_bytes(bytes(one_bit) if damage is None else damage)
    before = compilations.count
    with kept_in(path):
        check(make_class())
    assert compilations.count > before
    assert path.read_bytes() == whole


def test_a_file_of_another_python_is_not_used(
    tmp_path: Path, compilations: Compilations, monkeypatch: pytest.MonkeyPatch
):
    with kept_in(tmp_path / "code"):
        make_class()
    before = compilations.count
    monkeypatch.setattr(generated_code, "MAGIC_NUMBER", b"abcd")
    with kept_in(tmp_path / "code"):
        check(make_class())
    assert compilations.count == 2 * before


def test_classes_are_made_where_nothing_can_be_written(tmp_path: Path, compilations: Compilations):
    (tmp_path / "file").touch()
    with kept_in(tmp_path / "file" / "code"):
        check(make_class())
    (tmp_path / "folder").mkdir()
    with kept_in(tmp_path / "folder"):
        check(make_class())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_nothing_is_written_where_python_writes_no_bytecode(
    tmp_path: Path, compilations: Compilations, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with kept_in(tmp_path / "code"):
        check(make_class())
    assert list(tmp_path.iterdir()) == []


def test_afterwards_dataclasses_is_as_before_also_when_loading_failed(
    tmp_path: Path, compilations: Compilations
):
    with suppress(ImportError), kept_in(tmp_path / "code"):
        make_class()
        raise ImportError
    assert "exec" not in vars(dataclasses)
    before = compilations.count
    check(make_class())
    assert compilations.count == before


@pytest.mark.parametrize(
    ("module", "command", "expected"),
    [
        ("addon.__main__", "/opt/addon/__main__.py", "addon.__main__"),
        ("manage.server", "/opt/manage/server.py", "manage.server"),
        (None, "/usr/bin/taximeter", "taximeter"),
        (None, "-c", None),
        (None, "", None),
        ("pytest.__main__", "/opt/pytest/__main__.py", None),
    ],
)
def test_only_programs_of_ours_have_files(
    monkeypatch: pytest.MonkeyPatch, module: str | None, command: str, expected: str | None
):
    main = ModuleType("__main__")
    main.__spec__ = None if module is None else ModuleSpec(module, None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "argv", [command])
    assert loading._find_program() == expected
