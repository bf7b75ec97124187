"""The systemd units name what there is, and are hardened."""

import shutil
import subprocess
from pathlib import Path

import click
import pytest

from manage.cli.main import cli
from runtime.settings import Settings
from tests.deploy import DEPLOY, PROJECT, VARIABLES, read_unit

ANALYZE = shutil.which("systemd-analyze")
SERVICES = ["taximeter.service", "taximeter-backup.service"]
# Of 10, which is no protection at all. What is left is that it may listen and connect.
MOST_EXPOSURE = {"taximeter.service": 1.6, "taximeter-backup.service": 1.2}

needs_systemd = pytest.mark.skipif(
    ANALYZE is None, reason="there is no systemd-analyze; apt-get install systemd brings it"
)


def run_analyze(*arguments: str) -> str:
    """Run systemd-analyze and return what it prints, which is nothing where all is well."""
    done = subprocess.run(  # noqa: S603 - the linter
        [str(ANALYZE), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_runs_a_command_that_exists_on_valid_settings(name: str) -> None:
    unit = read_unit(name)
    [command] = unit["ExecStart"]
    program, verb, *_ = command.split()
    assert Path(program).name in PROJECT["project"]["scripts"]
    assert verb in cli.list_commands(click.Context(cli))
    given = dict(text.split("=", 1) for text in unit["Environment"])
    assert given.keys() <= VARIABLES
    assert Settings.from_env(given).data_dir == Path("/var/lib") / "taximeter"


def test_the_data_directory_is_the_state_directory_that_systemd_makes_for_it_alone():
    unit = read_unit("taximeter.service")
    assert unit["StateDirectory"] == ["taximeter"]
    assert unit["StateDirectoryMode"] == ["0700"]
    assert unit["UMask"] == ["0077"]


def test_the_backup_may_write_only_to_the_data_and_to_its_folder():
    unit = read_unit("taximeter-backup.service")
    [command] = unit["ExecStart"]
    folder = str(Path(command.split()[-1]).parent)
    assert unit["ReadWritePaths"] == [f"/var/lib/taximeter {folder}"]
    assert unit["RequiresMountsFor"] == [folder]


@needs_systemd
def test_systemd_understands_every_line(tmp_path: Path) -> None:
    """Another program stands for ours, which is a fault where it is not installed."""
    for path in DEPLOY.glob("taximeter*.*"):
        text = path.read_text().replace("/opt/taximeter/bin/taximeter", shutil.which("true") or "")
        (tmp_path / path.name).write_text(text)
    units = sorted(map(str, tmp_path.iterdir()))
    assert len(units) == 3
    assert run_analyze("verify", "--man=no", *units) == ""


@needs_systemd
@pytest.mark.parametrize("name", SERVICES)
def test_systemd_finds_little_that_a_service_could_do_besides_its_work(name: str) -> None:
    most = f"--threshold={round(10 * MOST_EXPOSURE[name])}"
    run_analyze("security", "--offline=yes", most, str(DEPLOY / name))
