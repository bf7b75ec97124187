"""The proxy endpoint that tests of the addon call."""

from store.control.database import ProxyEndpoint

ENDPOINT = ProxyEndpoint(
    id="endpoint",
    organization_id="org",
    name="Default",
    slug="default",
    streaming=None,
    metadata_only=False,
    created_at="2026-01-01T00:00:00.000Z",
)
