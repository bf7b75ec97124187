"""Other programs that forward calls to the Messages API, measured in the same run.

Each is installed from its own registry into its own folder outside the checkout, in the newest version
at that time, and is run as its documentation says for forwarding calls unchanged, without a database
and if possible without a log. nginx is used if it is installed. A peer that cannot be installed or
started is a row that says why."""

import json
import shutil
import subprocess
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import psutil

from bench.client import API_KEY, HEADERS
from bench.load import HOST, BenchError, Proxy, free_port, running, wait_until_listening
from bench.traffic import Kind, make_body

INSTALL_LIMIT_S = 900.0
PATH = "/v1/messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The command that starts a peer, and additional environment variables for it."""

    command: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A program to compare with. ``headers`` are sent with every call; "{upstream}" in them is upstream's
    URL.

    It gets 1 / ``divisor`` of the calls, so that a slow one does not prolong the run."""

    name: str
    title: str
    install: Callable[[Path], None]
    read_version: Callable[[Path], str]
    start: Callable[[Path, Path, str, int], Start]
    path: str = PATH
    headers: str = ""
    divisor: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A peer with the folder it is installed in. ``failure`` says why it could not be installed, or is
    None."""

    peer: Peer
    folder: Path
    version: str = ""
    failure: str | None = None

    @property
    def name(self) -> str:
        return self.peer.name

    @property
    def title(self) -> str:
        return f"{self.peer.title} {self.version}".rstrip()


def install_peers(folder: Path) -> list[Installed]:
    """Install all peers that are not yet in the folder, which takes minutes the first time."""
    return [install_peer(peer, folder / peer.name) for peer in PEERS]


def install_peer(peer: Peer, folder: Path) -> Installed:
    """Install a peer, and return it with its version, or with the reason of a failure."""
    whole = folder / "installed"
    try:
        if not whole.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            peer.install(folder)
            whole.touch()
        return Installed(peer=peer, folder=folder, version=peer.read_version(folder))
    except (BenchError, OSError, subprocess.SubprocessError) as error:
        return Installed(peer=peer, folder=folder, failure=f"cannot be installed: {error}")


@contextmanager
def running_peer(installed: Installed, folder: Path, upstream_port: int) -> Iterator[Proxy]:
    """Run a peer with its files in ``folder``. Raises BenchError if it cannot be run."""
    if installed.failure is not None:
        raise BenchError(installed.failure)
    peer, port = installed.peer, free_port()
    work = folder / peer.name
    work.mkdir()
    upstream = f"http://{HOST}:{upstream_port}"
    start = peer.start(installed.folder, work, upstream, port)
    log = work / "output.log"
    with running(start.command, log, start.environment, is_quiet=True) as process:
        try:
            wait_until_listening(port, process)
        except BenchError:
            raise BenchError(f"does not start: {_last_line(log)}") from None
        children = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        yield Proxy(
            port=port,
            paths=[peer.path],
            pids={"proxy": process.pid},
            workers=children,
            headers=peer.headers.format(upstream=upstream),
            divisor=peer.divisor,
        )


def check_response(proxy: Proxy, direct: Proxy, kind: Kind, query: str) -> str:
    """Compare upstream's response with the one through a peer; return a note on the result.

    Raises BenchError if the contents differ."""
    ours, wanted = (_call(each, kind, query) for each in (proxy, direct))
    if ours == wanted:
        return "same bytes"
    if _parse(ours) == _parse(wanted):
        return "same content, other bytes"
    raise BenchError(f"its response is not upstream's: {ours[:60]!r}")


def _call(proxy: Proxy, kind: Kind, query: str) -> bytes:
    lines = (HEADERS + proxy.headers).strip().splitlines()
    headers = dict(line.split(": ", 1) for line in lines)
    connection = HTTPConnection(HOST, proxy.port, timeout=60)
    try:
        connection.request("POST", proxy.paths[0] + query, make_body(kind, 0), headers)
        response = connection.getresponse()
        body = response.read()
    except (OSError, HTTPException) as error:
        raise BenchError(f"does not respond: {error!r}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise BenchError(f"responds with {response.status}: {body[:200]!r}")
    return body


def _parse(body: bytes) -> object:
    """Return the parsed content of a response: its document, or the documents of its events."""
    try:
        if body.lstrip().startswith(b"{"):
            return json.loads(body)
        lines = (line for line in body.splitlines() if line.startswith(b"data:"))
        return [json.loads(line.removeprefix(b"data:")) for line in lines]
    except ValueError:
        return body


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it wrote nothing"


def _run(*command: str | Path) -> str:
    """Run an installer and return its output. Raises BenchError with the end of the output."""
    result = subprocess.run(  # noqa: S603 - pip, npm, and programs they installed
        command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False
    )
    if result.returncode:
        lines = (result.stderr or result.stdout).strip().splitlines()
        raise BenchError(lines[-1][:300] if lines else f"{command[0]} failed")
    return result.stdout


def _pip_install(package: str) -> Callable[[Path], None]:
    def install(folder: Path) -> None:
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        _run(python, "-m", "pip", "install", "--disable-pip-version-check", "-q", package)

    return install


def _pip_version(package: str) -> Callable[[Path], str]:
    code = f"from importlib.metadata import version; print(version({package!r}))"

    def read_version(folder: Path) -> str:
        return _run(folder / "venv" / "bin" / "python", "-c", code).strip()

    return read_version


def _npm_install(package: str, overrides: Mapping[str, str]) -> Callable[[Path], None]:
    """Return a function that installs a package, with fixed versions of some of its dependencies."""

    def install(folder: Path) -> None:
        manifest = {"dependencies": {package: "latest"}, "overrides": overrides}
        (folder / "package.json").write_text(json.dumps(manifest))
        _run(_find("npm"), "install", "--prefix", folder, "--no-audit", "--no-fund")

    return install


def _npm_version(package: str) -> Callable[[Path], str]:
    def read_version(folder: Path) -> str:
        manifest = folder / "node_modules" / package / "package.json"
        return str(json.loads(manifest.read_text())["version"])

    return read_version


def _find(program: str) -> str:
    """Return the path of a program. Raises BenchError if it is not installed."""
    found = shutil.which(program)
    if found is None:
        raise BenchError(f"there is no {program}")
    return found


def _start_litellm(folder: Path, work: Path, upstream: str, port: int) -> Start:
    config = work / "config.yaml"
    config.write_text(
        "model_list: []\ngeneral_settings:\n  disable_spend_logs: true\n"
        "litellm_settings:\n  set_verbose: false\n"
    )
    options = ["--telemetry", "False", "--host", HOST, "--port", str(port), "--num_workers", "1"]
    return Start(
        command=[folder / "venv" / "bin" / "litellm", "--config", config, *options],
        environment={
            "ANTHROPIC_API_BASE": upstream,
            "ANTHROPIC_API_KEY": API_KEY,
            "LITELLM_MASTER_KEY": API_KEY,  # without one it does not start; the client sends it
            "LITELLM_LOG": "ERROR",
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
    )


def _start_portkey(folder: Path, _: Path, upstream: str, port: int) -> Start:
    server = folder / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    return Start(
        command=[_find("node"), server, f"--port={port}", "--headless"],
        environment={"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": f"{HOST},localhost"},
    )


def _start_claude_tap(folder: Path, work: Path, upstream: str, port: int) -> Start:
    options = ["--tap-no-launch", "--tap-no-live", "--tap-no-update-check"]
    return Start(
        command=[
            folder / "venv" / "bin" / "claude-tap",
            *options,
            *("--tap-port", str(port), "--tap-target", upstream),
        ],
        environment={"HOME": str(work)},  # it keeps traces there
    )


def _check_nginx(_: Path) -> None:
    _find("nginx")


def _nginx_version(_: Path) -> str:
    result = subprocess.run(  # noqa: S603 - nginx
        [_find("nginx"), "-v"], capture_output=True, text=True, timeout=10, check=True
    )
    return result.stderr.rpartition("/")[2].split()[0]


NGINX = """daemon off; worker_processes 1; pid {work}/nginx.pid; error_log {work}/error.log;
events {{ worker_connections 2048; }}
http {{
  access_log off; client_max_body_size 64m; client_body_buffer_size 1m;
  client_body_temp_path {work}; proxy_temp_path {work}; fastcgi_temp_path {work};
  uwsgi_temp_path {work}; scgi_temp_path {work};
  keepalive_requests 1000000;
  upstream api {{ server {upstream}; keepalive 64; keepalive_requests 1000000; }}
  server {{
    listen {host}:{port} backlog=1024;
    location / {{ proxy_pass http://api; proxy_http_version 1.1; proxy_buffering off;
      proxy_request_buffering off; proxy_set_header connection ""; }}
  }}
}}
"""


def _start_nginx(_: Path, work: Path, upstream: str, port: int) -> Start:
    config = work / "nginx.conf"
    address = upstream.removeprefix("http://")
    config.write_text(NGINX.format(work=work, upstream=address, host=HOST, port=port))
    return Start(command=[_find("nginx"), "-p", work, "-c", config, "-e", work / "error.log"])


PEERS: Sequence[Peer] = (
    Peer(
        name="litellm",
        title="LiteLLM",
        install=_pip_install("litellm[proxy]"),
        read_version=_pip_version("litellm"),
        start=_start_litellm,
        path=f"/anthropic{PATH}",
        divisor=4,
    ),
    Peer(
        name="portkey",
        title="Portkey's gateway",
        # The version in its own lock: its streams fail with newer ones (issue 1389 of its repository).
        install=_npm_install("@portkey-ai/gateway", {"@hono/node-server": "1.13.5"}),
        read_version=_npm_version("@portkey-ai/gateway"),
        start=_start_portkey,
        headers="x-portkey-provider: anthropic\r\nx-portkey-custom-host: {upstream}/v1\r\n",
    ),
    Peer(
        name="claude-tap",
        title="claude-tap",
        install=_pip_install("claude-tap"),
        read_version=_pip_version("claude-tap"),
        start=_start_claude_tap,
    ),
    Peer(
        name="nginx",
        title="nginx",
        install=_check_nginx,
        read_version=_nginx_version,
        start=_start_nginx,
    ),
)
