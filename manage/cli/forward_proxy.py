"""The forward proxy of a run: its process, and the environment of its client.

The process has a session of its own, so that keys typed at the terminal reach the client alone. It
ends when the pipe to its standard input is closed, so it never outlives this process."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import urlsplit

from manage.claude_code.arguments import get_given_settings, is_claude_code, passing_variables
from manage.claude_code.settings_files import get_variables, read_settings_files
from manage.claude_code.starting import UNMERGED
from manage.claude_code.variables import BASE_URL, Sources, describe_providers
from manage.cli.client_process import run_client
from manage.supervision.child_environ import without_credentials
from metering.formats import format_number
from runtime.errors import StartError
from runtime.http_proxies import LOOPBACK, UserProxies, covers
from runtime.safe_text import hide_credentials, terminal_line

STOP_S = 10.0
# For programs on OpenSSL and Node, and Python's requests. git is not among them: it never calls the upstream,
# and all other hosts keep their own certificates.
_BUNDLE_VARIABLES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The route of calls through a forward proxy.

    ``host`` and ``port`` are those of the upstream; only its connections are decrypted.
    ``service_url`` is the base URL of the run, to which calls are sent."""

    host: str
    port: int
    upstream_url: str
    service_url: str


def find_route(upstream_url: str | None, service_url: str, slug: str) -> Route:
    """Return the route for the calls of an endpoint.

    Raises StartError if the upstream is not known or is not an https address."""
    parts = urlsplit(upstream_url or "")
    if upstream_url is None or not parts.hostname:
        raise StartError(
            f"the service does not say where {slug!r} sends calls: it is of an earlier version, or"
            " TAXIMETER_UPSTREAMS does not name the upstream of the endpoint any more"
        )
    if parts.scheme != "https":
        raise StartError(
            f"{upstream_url} is not an https address, and a forward proxy is for https alone"
        )
    return Route(
        host=parts.hostname,
        port=parts.port or 443,
        upstream_url=upstream_url,
        service_url=service_url,
    )


def make_variables(
    environ: Mapping[str, str], route: Route, address: str, bundle: str
) -> dict[str, str]:
    """Return the variables that make a client use the forward proxy and trust its certificates.

    Hosts that the user exempts from proxies stay exempt, apart from the upstream. Loopback is exempt
    too, so that clients reach local servers of tools directly."""
    kept = [
        each for each in UserProxies.of(environ).exempt if not covers(each, route.host, route.port)
    ]
    exempt = ",".join(dict.fromkeys((*kept, *LOOPBACK)))
    return {
        "HTTPS_PROXY": address,
        "https_proxy": address,  # where both are set, this one wins
        "NO_PROXY": exempt,
        "no_proxy": exempt,
        "NODE_USE_ENV_PROXY": "1",
        **dict.fromkeys(_BUNDLE_VARIABLES, bundle),
    }


def run_by_proxy(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    route: Route,
    print_line: Callable[[str], None],
) -> tuple[int, str]:
    """Run a client through a forward proxy. Return its exit status and the reason for a lack of calls.

    The reason is meaningful only if no calls were recorded. Raises StartError, ClientError."""
    is_claude = is_claude_code(command)
    files = read_settings_files(environ, folder) if is_claude else ()
    given = get_variables(get_given_settings(command)) if is_claude else {}
    for line in find_obstacles(Sources.make(environ, files, given), route):
        print_line(line)
    with ForwardProxy(environ, route) as proxy:
        changed = {**environ, **proxy.variables}
        if not is_claude:
            status = run_client(command, changed, proxy.note_client)
        else:
            with passing_variables(command, proxy.variables) as passed:
                if passed is None:
                    print_line(UNMERGED)
                status = run_client(passed or command, changed, proxy.note_client)
        return status, proxy.explain(proxy.close())


def find_obstacles(sources: Sources, route: Route) -> Iterator[str]:
    """Yield a line for each setting that makes a client send calls past the forward proxy."""
    for source in sources.find_all(BASE_URL)[:1]:
        text = source.variables[BASE_URL]
        with suppress(ValueError):
            if text and urlsplit(text).hostname != route.host:
                yield (
                    f"{source.name} sets {BASE_URL} to {hide_credentials(text)}: calls that go there are not"
                    f" recorded, since only {route.host} is opened"
                )
    yield from describe_providers(sources)


class ForwardProxy:
    """The process of a forward proxy. ``variables`` is the environment that its client needs."""

    def __init__(self, environ: Mapping[str, str], route: Route) -> None:
        """Start the forward proxy and wait until it listens. Raises StartError."""
        self._host = route.host
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "addon.forward"],
            env=without_credentials(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # the terminal is the client's
            start_new_session=True,
        )
        try:
            told = {"upstream": route.upstream_url, "service": route.service_url}
            self._tell(json.dumps(told))
            said = self._await_address()
        except BaseException:
            self.close()
            raise
        self.variables = make_variables(environ, route, said["address"], said["bundle"])

    def _await_address(self) -> dict[str, Any]:
        said = self._read()
        if "address" not in said:
            reason = terminal_line(str(said.get("error", "it ended at once")))
            raise StartError(f"the forward proxy could not start: {reason}")
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def note_client(self, pid: int) -> None:
        """Tell the forward proxy the client's process id.

        If this process is killed, the forward proxy ends the client."""
        self._tell(str(pid))

    def _tell(self, line: str) -> None:
        with suppress(OSError):  # it has ended
            pipe = _pipe(self._process.stdin)
            pipe.write(f"{line}\n".encode())
            pipe.flush()

    def _read(self) -> dict[str, Any]:
        """Return the next JSON document that the forward proxy prints, ``{}`` at the end of its output."""
        with suppress(ValueError):
            document: dict[str, Any] = json.loads(_pipe(self._process.stdout).readline())
            return document
        return {}

    def close(self) -> dict[str, Any]:
        """Stop the forward proxy (killed after ``STOP_S``) and return its report.

        The report is ``{}`` if the forward proxy gave none or was closed before."""
        stdin, stdout = _pipe(self._process.stdin), _pipe(self._process.stdout)
        if stdin.closed:
            return {}
        self._tell("end")
        with suppress(OSError):
            stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with stdout:
            return self._read()

    def explain(self, done: Mapping[str, Any]) -> str:
        """Return a probable reason why there were no calls, from the report ``done`` of ``close``."""
        if done.get("refused"):
            failed = format_number(done["refused"], "connection")
            return (
                f"{failed} to {self._host} ended with its certificate: the client does not trust that of"
                " the run. It may have a list of authorities of its own."
            )
        if done.get("calls") == done.get("others") == 0:
            return (
                f"Nothing was sent to {self._host} through the forward proxy. The client may not use"
                " HTTPS_PROXY, or have a setting of its own for it."
            )
        return f"{self._host} got other requests alone."


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("the process has no pipes")
    return stream
