"""The choice of the requests that a forward proxy sends to the service."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from addon import upstream_paths
from addon.errors import Refusal
from runtime.setting_values import Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The base URL of a run: ``<service>/proxy/<slug>/run/<run id>``."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_service(url: str) -> Service:
    """Return the parts of a run's base URL. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url} is not the base URL of a run")
    return Service(
        scheme=parts.scheme,
        host=parts.hostname,
        port=parts.port or (443 if parts.scheme == "https" else 80),
        path=parts.path,
    )


def find_path(method: str, target: str, upstream: Upstream, service: Service) -> str | None:
    """Return the target for a request to be sent to the service, or None if it passes to the upstream.

    Requests that the service records, or reads for what their responses report, are sent to the
    service, unless it would refuse them: a direct client could send those."""
    below = target.removeprefix(upstream.prefix)
    if upstream.prefix and (below == target or not below.startswith("/")):
        return None
    path = below.partition("?")[0]
    if "#" in below:
        return None
    call = upstream_paths.judge(method, path)
    if isinstance(call, Refusal) or call.record is None:
        return None
    return service.path + below
