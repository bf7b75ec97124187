"""Four people of two organisations, and what one does at the API."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import httpx

from tests.live.service import REQUEST_HEADERS, Row, Service
from tests.rawclient import request
from tests.upstream import PATIENCE_S, Upstream


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a key, at an address of their own."""

    service: Service
    raw_key: str

    def connect(self) -> httpx.Client:
        return httpx.Client(
            base_url=f"http://{self.service.host}/api",
            headers={"authorization": f"Bearer {self.raw_key}"},
            timeout=PATIENCE_S,
            verify=False,  # noqa: S501 - there is no TLS, and reading certificates takes longest
        )

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        with self.connect() as client:
            return client.request(method, path, **more)

    def walk(self, path: str, limit: int = 100) -> Iterator[dict[str, Any]]:
        """Every item of a list, page by page."""
        cursor: str | None = None
        with self.connect() as client:
            while True:
                query = {"limit": limit} | ({"cursor": cursor} if cursor else {})
                page = client.get(path, params=query).raise_for_status().json()
                yield from page["items"]
                cursor = page["nextCursor"]
                assert page["hasMore"] == (cursor is not None)
                if cursor is None:
                    return


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Ann and Bob are one organisation, Cid and Dee another."""

    service: Service
    upstream: Upstream
    ann: Person
    bob: Person
    cid: Person
    dee: Person

    def message(self, slug: str) -> bytes:
        return request("POST", f"/proxy/{slug}/v1/messages", REQUEST_HEADERS, b"{}")

    def rows(self, slug: str) -> list[Row]:
        """Return the rows of a slug, as ``Service.settled_rows`` does where there is one organisation."""
        self.service.wait_spool_empty()
        found = []
        for path in self.service.data_dir.glob("traces/*/traces.db"):
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                database.row_factory = sqlite3.Row
                query = "select * from usage_log where slug = ? order by id"
                found += [dict(row) for row in database.execute(query, (slug,))]
        return found
