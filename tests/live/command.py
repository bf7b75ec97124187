"""The command as people call it: run to its end, or kept running for the time of a test.

To start it takes most of a second of a processor, so tests that call many commands call them in this
process.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from click.testing import CliRunner

from manage.cli.main import cli
from tests.live.service import Output, Service
from tests.upstream import PATIENCE_S

TAXIMETER = Path(sys.executable).with_name("taximeter")

type Done = subprocess.CompletedProcess[str]


def base_url(service: Service) -> str:
    return f"http://{service.host}"


def environment(service: Service, **more: str) -> dict[str, str]:
    """Return the variables on the machine of the service, without its address."""
    inherited = {name: service.environment[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH")}
    return inherited | {"TAXIMETER_DATA_DIR": str(service.data_dir)} | more


def call(arguments: tuple[str, ...], environ: dict[str, str]) -> Done:
    return subprocess.run(  # noqa: S603 - our own program
        [str(TAXIMETER), *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def call_here(arguments: tuple[str, ...], environ: dict[str, str]) -> Done:
    """Do as ``call`` does, in this process, whose own settings the command does not see."""
    others: dict[str, str | None] = {
        name: None for name in os.environ if name.startswith("TAXIMETER_")
    }
    result = CliRunner().invoke(cli, arguments, env=others | environ)
    return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)


@contextmanager
def running(
    arguments: tuple[str, ...], environ: dict[str, str], stdin: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], Output, Output]]:
    """A command that goes on; its end is the test's. ``stdin`` replaces standard input."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        [str(TAXIMETER), *arguments],
        env=environ,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    assert process.stderr
    outputs = Output(process.stdout), Output(process.stderr)
    try:
        yield process, *outputs
    finally:
        children = []
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        for output in outputs:
            output.close()
