"""Compiled templates that outlast their process."""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from jinja2 import Environment, FileSystemLoader

from dashboard import rendering
from dashboard.tables import environment as of_tables
from dashboard.template_cache import FOLDER, TemplateCache

TEXT = "{{ 5 | times }} of {{ total }}"


class Counting(Environment):
    """An environment that counts what it compiles."""

    compiled = 0

    def _generate(self, *args: object, **kwargs: object) -> str:
        self.compiled += 1
        return super()._generate(*args, **kwargs)  # type: ignore[arg-type]


type Begin = Callable[[], Counting]


def load_filters(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("filters_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["filters_of_a_test"] = module
    spec.loader.exec_module(module)
    return module


def write_filter(path: Path, factor: int, *, at_s: int) -> None:
    path.write_text(f"def times(number):\n    return number * {factor}\n")
    os.utime(path, (at_s, at_s))


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Return what makes an environment as a process that starts does."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setitem(sys.modules, "filters_of_a_test", ModuleType("filters_of_a_test"))
    write_filter(tmp_path / "filters.py", 2, at_s=1_000)
    (tmp_path / "page.html").write_text(TEXT)
    (tmp_path / "made_in.py").touch()
    (tmp_path / "compiled").mkdir()

    def begin() -> Counting:
        made = Counting(loader=FileSystemLoader(tmp_path))
        made.filters["times"] = load_filters(tmp_path / "filters.py").times
        made_in = str(tmp_path / "made_in.py")
        made.bytecode_cache = TemplateCache(made, made_in, tmp_path / "compiled")
        return made

    return begin


def render(environment: Counting) -> str:
    return environment.get_template("page.html").render(total=20)


def test_a_template_that_was_compiled_once_is_not_compiled_by_the_next_process(begin: Begin):
    first, second = begin(), begin()
    assert [render(first), render(second)] == ["10 of 20"] * 2
    assert (first.compiled, second.compiled) == (1, 0)


def test_a_template_is_compiled_anew_after_a_change_of_its_source(begin: Begin, tmp_path: Path):
    render(begin())
    (tmp_path / "page.html").write_text("all of {{ total }}")
    assert render(begin()) == "all of 20"


def test_a_template_is_compiled_anew_after_a_change_of_a_filter(begin: Begin, tmp_path: Path):
    render(begin())
    write_filter(tmp_path / "filters.py", 3, at_s=2_000)
    assert render(begin()) == "15 of 20"


def test_a_template_is_compiled_anew_after_a_change_of_what_makes_the_environment(
    begin: Begin, tmp_path: Path
):
    render(begin())
    (tmp_path / "made_in.py").write_text("# with other options")
    second = begin()
    render(second)
    assert second.compiled == 1


def test_a_file_that_is_replaced_while_the_program_runs_changes_nothing_for_the_next(
    begin: Begin, tmp_path: Path
):
    old = begin()
    write_filter(tmp_path / "filters.py", 3, at_s=2_000)
    assert render(old) == "10 of 20"
    assert render(begin()) == "15 of 20"


@pytest.mark.parametrize("keep", [0, 3, 20, 30, 80])
def test_a_damaged_file_is_made_anew(begin: Begin, tmp_path: Path, keep: int):
    render(begin())
    (path,) = (tmp_path / "compiled").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:keep] + b"\xff" * 40)
    assert render(begin()) == "10 of 20"
    assert path.read_bytes() == whole


def test_pages_are_made_where_nothing_can_be_written(begin: Begin, tmp_path: Path):
    (tmp_path / "compiled").rmdir()
    (tmp_path / "compiled").touch()
    assert render(begin()) == "10 of 20"


def test_nothing_is_written_where_python_writes_no_bytecode(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    render(begin())
    assert list((tmp_path / "compiled").iterdir()) == []


def test_a_program_file_that_is_gone_stops_no_page(begin: Begin, tmp_path: Path):
    (tmp_path / "made_in.py").unlink()
    assert render(begin()) == "10 of 20"


def test_both_environments_have_files_of_their_own(tmp_path: Path):
    environment = Environment(autoescape=True)
    caches = [
        TemplateCache(environment, made_in, tmp_path)
        for made_in in (rendering.__file__, of_tables.__file__)
    ]
    assert len({each.pattern for each in caches}) == 2
    assert isinstance(rendering._templates.bytecode_cache, TemplateCache)
    assert Path(importlib.util.cache_from_source(rendering.__file__)).parent == FOLDER
