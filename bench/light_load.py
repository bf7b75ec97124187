"""A load and an upstream that need little of the machine: ``wrk`` and nginx, if they are installed.

On two processors, two workers of the proxy share them with the programs that make the calls and
respond to them. Our own client and upstream are Python and use a quarter of what the proxy uses; these
use a tenth. The calls are the same, and so are the responses."""

import json
import resource
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.client import make_request
from bench.load import (
    CALLS_PER_SLUG,
    HOST,
    BenchError,
    Client,
    Proxy,
    free_port,
    process_cpu_s,
    running,
    upstream,
    wait_until_listening,
)
from bench.traffic import SALT, make_body
from bench.upstream import make_json_response

# The requests are made before; of each only the path and the number in its body differ.
SCRIPT = """
local heads, tail = {}, nil
function setup(thread) sender = thread end
function init(args)
  number, run_length = tonumber(args[1]), tonumber(args[2])
  for line in io.lines(args[3]) do heads[#heads + 1] = line:gsub("\\\\r\\\\n", "\\r\\n") end
  local file = io.open(args[4], "rb")
  tail = file:read("*a")
  file:close()
end
function request()
  local head = heads[math.floor(number / run_length) % #heads + 1]
  local text = head .. string.format("%08d", number) .. tail
  number = number + 1
  return text
end
function done(summary)
  local errors = summary.errors
  io.write(string.format('\\nRESULT {"calls": %d, "seconds": %f, "failed": %d, "sent": %d}\\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    sender:get("number")))
end
"""
NGINX = """daemon off; worker_processes 1; pid {work}/upstream.pid; error_log {work}/upstream-error.log;
events {{ worker_connections 2048; }}
http {{
  access_log off; client_body_temp_path {work}; proxy_temp_path {work}; fastcgi_temp_path {work};
  uwsgi_temp_path {work}; scgi_temp_path {work};
  keepalive_requests 1000000; client_body_buffer_size 1m; server_tokens off;
  server {{
    listen {host}:{port} backlog=1024;
    location / {{ default_type application/json; {headers} return 200 '{body}'; }}
  }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The result of a load: complete responses and their duration, requests sent, and its CPU time."""

    calls: int
    sent: int
    seconds: float
    cpu_s: float


class OwnLoad:
    """The load by our own client, for a number of calls."""

    def __init__(self, client: Client, connections: int) -> None:
        self._client, self._connections = client, connections

    def run(self, proxy: Proxy, first: int, calls: int, _: float) -> Loaded:
        before_s = process_cpu_s(self._client.pid)
        result = self._client.run_calls(proxy.make_job("small", first, calls, self._connections))
        cpu_s = process_cpu_s(self._client.pid) - before_s
        return Loaded(calls=calls, sent=calls, seconds=result.seconds, cpu_s=cpu_s)


class WrkLoad:
    """The load by ``wrk``, for some seconds. Calls in flight at the end are cut."""

    def __init__(self, work: Path, connections: int) -> None:
        self._work, self._connections = work, connections
        (work / "load.lua").write_text(SCRIPT)

    def run(self, proxy: Proxy, first: int, _: int, seconds: float) -> Loaded:
        """Make calls for ``seconds``. Raises BenchError unless every response was good."""
        heads, tail = self._work / "heads", self._work / "tail"
        starts, rest = _split_requests(proxy.paths)
        heads.write_text("".join(f"{line}\n" for line in starts))
        tail.write_bytes(rest)
        command = [
            "wrk",
            "-t1",
            f"-c{self._connections}",
            f"-d{round(seconds)}s",
            "--timeout",
            "30s",
        ]
        command += ["-s", str(self._work / "load.lua"), f"http://{HOST}:{proxy.port}", "--"]
        command += [str(first), str(CALLS_PER_SLUG), str(heads), str(tail)]
        before_s = _children_cpu_s()
        result = subprocess.run(  # noqa: S603 - wrk
            command, capture_output=True, text=True, timeout=seconds + 60, check=False
        )
        cpu_s = _children_cpu_s() - before_s
        answered = result.stdout.partition("\nRESULT ")[2]
        if not answered:
            raise BenchError(f"wrk: {(result.stderr or result.stdout)[-500:]}")
        answer = json.loads(answered.splitlines()[0])
        if answer["failed"]:
            raise BenchError(f"{answer['failed']} of {answer['calls']} responses were errors")
        return Loaded(
            calls=answer["calls"],
            sent=answer["sent"] - first,
            seconds=answer["seconds"],
            cpu_s=cpu_s,
        )


def is_there() -> bool:
    """Return whether ``wrk`` and nginx are installed."""
    return shutil.which("wrk") is not None and shutil.which("nginx") is not None


@contextmanager
def light_upstream(work: Path) -> Iterator[Proxy]:
    """Run nginx as the upstream, or our own upstream if nginx is not installed."""
    if not is_there():
        with upstream() as own:
            yield own
        return
    port = free_port()
    head, _, body = make_json_response().decode().partition("\r\n\r\n")
    fields = [line.split(": ", 1) for line in head.splitlines()[1:]]
    own_fields = ("content-length", "content-type", "date", "server")
    headers = "".join(
        f'add_header {name} "{value}"; ' for name, value in fields if name not in own_fields
    )
    config = work / "upstream.conf"
    config.write_text(NGINX.format(work=work, host=HOST, port=port, headers=headers, body=body))
    command: list[str | Path] = [
        "nginx",
        "-p",
        work,
        "-c",
        config,
        "-e",
        work / "upstream-error.log",
    ]
    with running(command, work / "upstream.log") as process:
        wait_until_listening(port, process)
        children = [child.pid for child in psutil.Process(process.pid).children()]
        yield Proxy(
            port=port, paths=["/v1/messages"], pids={"proxy": process.pid}, workers=children
        )


def _split_requests(paths: Sequence[str]) -> tuple[list[str], bytes]:
    """Return the text before the number in a request, for each path, and the bytes after it."""
    template = make_body("small", 0).replace(b"%08d" % 0, SALT, 1)
    start, _, tail = template.partition(SALT)
    lines = []
    for path in paths:
        head = make_request(path, template)[: -len(template)] + start
        lines.append(head.decode().replace("\r\n", "\\r\\n"))
    return lines, tail


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
