import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from manage import data_dir
from manage.cli.main import cli
from manage.data_dir import prepare_data_dir
from runtime.errors import StartError


def mode_of(folder):
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.fixture
def folder(tmp_path):
    """One of an earlier start."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    (folder / "control.db").touch()
    return folder


def test_a_folder_that_is_not_there_is_made_for_its_owner_alone(tmp_path):
    assert prepare_data_dir(tmp_path / "a" / "data") is None
    assert mode_of(tmp_path / "a" / "data") == 0o700


def test_a_private_folder_stays_as_it_is(folder):
    assert prepare_data_dir(folder) is None
    assert mode_of(folder) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755, 0o750, 0o701, 0o702])
def test_a_folder_that_others_can_use_is_closed_and_that_is_said(folder, mode):
    folder.chmod(mode)
    warning = prepare_data_dir(folder)
    assert warning is not None
    assert f"mode {mode:o}" in warning
    assert mode_of(folder) == 0o700


def test_an_empty_folder_is_closed_too(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    empty.chmod(0o777)
    assert prepare_data_dir(empty) is not None
    assert mode_of(empty) == 0o700


def test_a_folder_with_other_things_in_it_is_refused_and_not_closed(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    (home / "letters.txt").touch()
    with pytest.raises(StartError, match="--data-dir"):
        prepare_data_dir(home)
    assert mode_of(home) == 0o755


def test_a_folder_that_is_shared_on_purpose_is_refused_and_not_closed(folder):
    folder.chmod(0o1777)
    with pytest.raises(StartError, match="mode 1777"):
        prepare_data_dir(folder)
    assert mode_of(folder) == 0o1777


def test_somebody_elses_folder_is_refused(folder, monkeypatch):
    monkeypatch.setattr(data_dir, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(StartError, match=r"another user .*chown"):
        prepare_data_dir(folder)


def test_a_link_leads_to_a_folder_that_is_looked_at(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)
    folder.chmod(0o777)
    assert prepare_data_dir(link) is not None
    assert mode_of(folder) == 0o700


def test_somebody_elses_link_is_refused(folder, tmp_path, monkeypatch):
    link = tmp_path / "link"
    link.symlink_to(folder)
    monkeypatch.setattr(data_dir, "geteuid", lambda: 12345)
    monkeypatch.setattr(
        Path, "lstat", lambda _self: type("Status", (), {"st_uid": 4711, "st_mode": 0o120777})()
    )
    with pytest.raises(StartError, match="link"):
        prepare_data_dir(link)


def test_a_file_system_that_keeps_no_modes_is_refused(folder, monkeypatch):
    folder.chmod(0o777)
    monkeypatch.setattr(Path, "chmod", lambda _self, _mode: None)
    with pytest.raises(StartError, match="file system"):
        prepare_data_dir(folder)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(StartError, match="is not a directory"):
        prepare_data_dir(tmp_path / "link")


def test_up_does_not_start_on_a_folder_that_others_can_change(tmp_path):
    (tmp_path / "letters.txt").touch()
    tmp_path.chmod(0o777)
    result = CliRunner().invoke(cli, ["up", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"])
    assert result.exit_code == 1
    assert "accessible to other users" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]
