"""The named fields that are kept of a response's headers, which never are as a whole."""

from addon import headers
from metering.rate_limits import collect_limits
from store.spool.format import ResponseHead

MAX_ID_CHARS = 200


class ResponseMetadata:
    """Makes the head of a response in a spool file."""

    def __init__(self, vendor: str) -> None:
        """Make heads of the responses of an upstream. ``vendor`` begins the names of its own headers."""
        self._organization_header = f"{vendor}-organization-id".encode()
        self._workspace_header = f"{vendor}-workspace-id".encode()
        self._rate_limit_prefix = f"{vendor}-ratelimit-".encode()

    def make_head(self, status_code: int, fields: headers.Fields) -> ResponseHead:
        """Return what is kept of the head of a response."""
        named = headers.by_name(fields)
        return ResponseHead(
            status_code=status_code,
            content_type=named.get(b"content-type"),
            content_encoding=named.get(b"content-encoding"),
            upstream_request_id=named.get(b"request-id"),
            upstream_organization_id=_cut(named.get(self._organization_header)),
            workspace_id=_cut(named.get(self._workspace_header)),
            rate_limits=collect_limits(named, self._rate_limit_prefix) or None,
        )


def _cut(value: str | None) -> str | None:
    return None if value is None else value[:MAX_ID_CHARS]
