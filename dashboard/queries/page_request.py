"""A request for a page that a query process makes: tables by Datasette, or a page of recorded text.

The work for recorded text grows with its size, and for some of it (colours, Markdown, differences)
faster; nothing inside a process can stop a regular expression. So these pages are made in a process that
can be killed.
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
    """A request for a page, with the values that it needs beside the traces.

    ``arguments`` are JSON values. ``is_plain``: without colours, Markdown and differences, since these
    took too long."""

    name: PageName
    caller: Caller
    base_url: str
    vendor: str
    is_for_program: bool
    arguments: Mapping[str, Any] = field(default_factory=dict)
    is_plain: bool = False

    @property
    def is_of_tables(self) -> bool:
        """Return whether Datasette makes the page, by the address of the request."""
        return self.name == "tables"

    def render(self, template: str, **context: Any) -> Response:
        """Return the page made from a template. Its headers forbid other sites to read it and caches to
        store it."""
        return rendering.render(
            template, visitor=self.caller, headers=PRIVATE, is_plain=self.is_plain, **context
        )

    def refuse(self, status: int, message: str) -> Response:
        """Return an error page, or its JSON for a program."""
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
        """Return the base URL that clients of a proxy endpoint are configured with."""
        return f"{self.base_url}/proxy/{slug}"

    def encode(self) -> bytes:
        """Return the request as the ASCII value of the header ``HEADER``."""
        caller = self.caller
        person = [caller.email, caller.organization_name] if isinstance(caller, Visitor) else None
        known = caller.user_id, caller.organization_id, caller.role, caller.time_zone, person
        options = self.base_url, self.vendor, self.is_for_program, self.is_plain
        return json.dumps([self.name, known, options, self.arguments]).encode("ascii")

    @classmethod
    def read(cls, scope: Scope) -> Self:
        """Return the request from the header that the web process sent."""
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
