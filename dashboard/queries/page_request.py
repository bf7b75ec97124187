"""A request for a page that a query process makes: of tables, by Datasette, or of recorded text.

The work for recorded text grows with what clients recorded, and some of it (colours, Markdown, differences)
faster than that; nothing inside a process stops a regular expression. So it is done where it can be killed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from starlette.responses import Response
from starlette.types import Scope

from dashboard import rendering
from dashboard.queries.protocol import HEADER
from dashboard.rendering import PRIVATE
from runtime.errors import CODES, OTHER_CODE
from store.control.people import Caller
from store.control.sessions import Visitor

type PageName = Literal[
    "tables",
    "call",
    "compare",
    "context",
    "export",
    "replay",
    "replay_check",
    "session_context",
    "turn",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A page with what it is made of beside the traces. ``arguments`` are values of JSON.

    ``is_plain``: without colours, Markdown and differences, since these took too long."""

    name: PageName
    caller: Caller
    base_url: str
    vendor: str
    is_for_program: bool
    arguments: Mapping[str, Any] = field(default_factory=dict)
    is_plain: bool = False

    @property
    def is_of_tables(self) -> bool:
        """Return whether Datasette makes it, of what the address says."""
        return self.name == "tables"

    def render(self, template: str, **context: Any) -> Response:
        """Return the page from a template, as no other site may have it and no cache stores it."""
        return rendering.render(
            template, visitor=self.caller, headers=PRIVATE, is_plain=self.is_plain, **context
        )

    def refuse(self, status: int, message: str) -> Response:
        """Return why there is no page."""
        return rendering.report(
            status,
            CODES.get(status, OTHER_CODE),
            message,
            PRIVATE,
            by_program=self.is_for_program,
            visitor=self.caller,
            here="sessions" if self.name == "session_context" else "calls",
        )

    def endpoint_url(self, slug: str) -> str:
        """Return the base URL that a client of a proxy endpoint is configured with."""
        return f"{self.base_url}/proxy/{slug}"

    def encode(self) -> bytes:
        """Return the header's value; it is ASCII whatever the names are."""
        caller = self.caller
        person = [caller.email, caller.organization_name] if isinstance(caller, Visitor) else None
        known = caller.user_id, caller.organization_id, caller.role, caller.time_zone, person
        options = self.base_url, self.vendor, self.is_for_program, self.is_plain
        return json.dumps([self.name, known, options, self.arguments]).encode("ascii")

    @classmethod
    def read(cls, scope: Scope) -> Self:
        """Return the request in the headers that the web process made."""
        name, known, options, arguments = json.loads(dict(scope["headers"])[HEADER])
        user_id, organization_id, role, time_zone, person = known
        base_url, vendor, is_for_program, is_plain = options
        who = {
            "user_id": user_id,
            "organization_id": organization_id,
            "role": role,
            "time_zone": time_zone,
        }
        return cls(
            name=name,
            caller=Caller(**who)
            if person is None
            else Visitor(**who, email=person[0], organization_name=person[1]),
            base_url=base_url,
            vendor=vendor,
            is_for_program=is_for_program,
            arguments=arguments,
            is_plain=is_plain,
        )
