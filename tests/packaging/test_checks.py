"""The ways to run the checks, all of which run `./run.sh check` or `.ci/run`."""

import tomllib

import pytest
import yaml

from tests import ROOT

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOOLS = CONFIG["tool"]
ROOMS = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"bench", "tests"}


@pytest.mark.parametrize(
    "listed",
    [
        [pattern.rstrip("*") for pattern in TOOLS["setuptools"]["packages"]["find"]["include"]],
        TOOLS["ruff"]["lint"]["isort"]["known-first-party"],
        TOOLS["mypy"]["files"],
        TOOLS["coverage"]["run"]["source"],
    ],
    ids=["setuptools", "ruff", "mypy", "coverage"],
)
def test_every_tool_knows_every_room(listed):
    assert set(listed) >= ROOMS


def test_the_hook_before_commits_is_run_sh_check():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    [local] = config["repos"]
    [hook] = local["hooks"]
    assert (local["repo"], hook["entry"], hook["language"]) == ("local", "./run.sh check", "system")
    assert hook["always_run"]
    assert not hook["pass_filenames"]


def test_hosted_ci_runs_the_script_of_every_push_with_each_supported_python():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    job = workflow["jobs"]["test"]
    assert job["steps"][-1] == {"run": ".ci/run", "env": {"TAXIMETER_PYTHON": "python"}}
    supported = {
        classifier.rpartition(" ")[2]
        for classifier in CONFIG["project"]["classifiers"]
        if classifier.startswith("Programming Language :: Python :: 3.")
    }
    assert supported
    assert supported <= set(job["strategy"]["matrix"]["python"])
