"""Whoever runs the checks, they are those of `./run.sh check` and `.ci/run`."""

import tomllib

import yaml

from tests import ROOT


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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = {
        classifier.rpartition(" ")[2]
        for classifier in project["classifiers"]
        if classifier.startswith("Programming Language :: Python :: 3.")
    }
    assert supported
    assert supported <= set(job["strategy"]["matrix"]["python"])
