"""Nodes that are one service: one with the pages, a proxy node, and another copy."""

from dataclasses import dataclass

from tests.live.conftest import make_new_endpoint
from tests.live.service import Endpoint, Row, Service
from tests.redis_server import RedisServer
from tests.upstream import Upstream, wait_until

COMPARED = ("entry_id", "outcome", "request_body", "response_body", "credential_hmac", "cost_cents")


@dataclass(frozen=True, slots=True)
class Nodes:
    redis: RedisServer
    upstream: Upstream
    web: Service
    proxy: Service
    copy: Service

    def endpoint(self) -> Endpoint:
        """Make an endpoint on the web node; return it as clients of the proxy node have it."""
        slug = make_new_endpoint(self.web, self.upstream).slug
        found = Endpoint(self.proxy, self.upstream, slug)
        wait_until(lambda: found.send().status == 200, "the slug on the proxy node")
        self.rows(slug, 1)
        return found

    def rows(self, slug: str, count: int) -> list[Row]:
        """Wait until there are so many entries in both copies, which are the same; return them."""
        first, second = (node.wait_for_rows(count, slug) for node in (self.web, self.copy))
        assert [len(first), len(second)] == [count, count]
        key = lambda row: row["entry_id"]  # noqa: E731
        first, second = sorted(first, key=key), sorted(second, key=key)
        assert [[row[name] for name in COMPARED] for row in first] == [
            [row[name] for name in COMPARED] for row in second
        ]
        return first
