"""``python -m tests.dependency_audit``: known vulnerabilities in what the locks pin.

pip-audit asks the OSV service about each package of ``requirements-dev.lock``, which has those of
``requirements.lock`` too. A machine that cannot reach the service is told so in a line, and nothing fails.
What passed is not asked again on the same day.
"""

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests import ROOT

LOCK = ROOT / "requirements-dev.lock"
STAMP = ROOT / ".venv" / "audited"
SERVICE = os.environ.get("PIP_AUDIT_OSV_URL", "https://api.osv.dev/v1/query")
REACH_S, RESPONSE_S, AUDIT_S = 3.0, 5, 120.0


def main(arguments: list[str] | None = None) -> int:
    """Audit the lock, and return the exit status: 1 where a vulnerability is known, otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.dependency_audit", description=__doc__)
    parser.add_argument("--lock", type=Path, default=LOCK)
    parser.add_argument("--stamp", type=Path, default=STAMP)
    parser.add_argument("--service", default=SERVICE, help="the address of OSV's query operation")
    given = parser.parse_args(arguments)
    digest = hashlib.sha256(given.lock.read_bytes()).hexdigest()
    stamp = f"{digest} {find_day()}\n"
    if given.stamp.exists() and given.stamp.read_text() == stamp:
        return 0
    trouble = _find_trouble(given.service)
    found = None if trouble else _audit(given.lock, given.service)
    if found is None:
        host = urlsplit(given.service).hostname
        print(f"Dependency audit: {host} could not be reached, skipped.")
        return 0
    lines = list(_describe(found))
    if not lines:
        given.stamp.write_text(stamp)
        print(f"Dependency audit: nothing is known against {len(found['dependencies'])} packages.")
        return 0
    print("\n".join(lines), file=sys.stderr)
    print(
        "Raise them with `uv pip compile … --upgrade-package NAME` (see CONTRIBUTING.md, Dependencies).",
        file=sys.stderr,
    )
    return 1


def find_day() -> str:
    """Return today's date."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"


def _find_trouble(service: str) -> str | None:
    """Return why the service cannot be asked, or None. pip-audit would retry for minutes."""
    query = {"package": {"name": "pip", "ecosystem": "PyPI"}, "version": "0"}
    try:
        httpx.post(service, json=query, timeout=REACH_S).raise_for_status()
    except httpx.HTTPError as error:
        return str(error)
    return None


def _audit(lock: Path, service: str) -> Any:
    """Return what pip-audit found, or None if the service went away meanwhile.

    Raises SystemExit where it cannot read the lock."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--no-deps"]
    command += [
        "--disable-pip",
        "--require-hashes",
        "--format",
        "json",
        "--progress-spinner",
        "off",
    ]
    command += ["--vulnerability-service", "osv", "--osv-url", service]
    command += ["--timeout", str(RESPONSE_S)]
    try:
        done = subprocess.run(  # noqa: S603 - a tool of ours
            command, capture_output=True, text=True, timeout=AUDIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    try:
        return json.loads(done.stdout)
    except ValueError:
        if "requests.exceptions" in done.stderr or "onnect" in done.stderr:
            return None
        raise SystemExit(f"pip-audit failed:\n{done.stderr}") from None


def _describe(found: Any) -> Iterator[str]:
    for package in found["dependencies"]:
        for vulnerability in package.get("vulns", []):
            fixed = ", ".join(vulnerability["fix_versions"]) or "no version yet"
            yield (
                f"{package['name']} {package['version']} has {vulnerability['id']}, fixed in {fixed}:"
                f" {vulnerability['description'][:200]}"
            )


if __name__ == "__main__":
    sys.exit(main())
