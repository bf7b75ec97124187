"""A page that reads calls: ``/counted``, with a link to it."""

from tests.trails.copies import Copy, Trail

PAGES = '''"""``/counted``: how many calls there are."""

import sqlite3

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from dashboard import rendering
from dashboard.call_route import CallRoute
from dashboard.trace_work import TracePages


class CountedPages(TracePages):
    """The page with the number of calls."""

    def routes(self) -> list[BaseRoute]:
        return [CallRoute("/counted", self.page)]

    async def page(self, request: Request) -> Response:
        caller = await self._visitors.require_caller(request)

        def respond(connection: sqlite3.Connection | None) -> Response:
            count = 0
            if connection is not None:
                (count,) = connection.execute("select count(*) from usage").fetchone()
            return rendering.render("counted.html", visitor=caller, count=count)

        return await self._work.run(caller, respond)
'''
TEMPLATE = """{% extends "layout.html" %}
{% set here = "counted" %}
{% block title %}Counted{% endblock %}
{% block content %}
<h1>{{ count | count_of }} calls</h1>
{% endblock %}
"""
CHECK = """
import pytest


def test_the_page_counts_calls(ann):
    assert "<h1>0 calls</h1>" in ann.get("/counted").text
    ann.record({}, {})
    page = ann.get("/counted")
    assert "<h1>2 calls</h1>" in page.text
    assert '<a href="/counted" aria-current="page">Counted</a>' in page.text


def test_the_page_is_for_people_who_are_signed_in(ann):
    ann.browser.cookies.clear()
    assert ann.get("/counted").status_code == 303
"""
CHOICES = (
    "layout.html",
    "dashboard/templates/_components.html",
    "dashboard/drawing.py",
    "dashboard/settings/view.py",
    "settings.html",
    "dashboard/settings/pages.py",
    "dashboard/traces.py",
    "dashboard/<folder>/documents.py",
    "dashboard/json_pages.py",
    "dashboard/queries/page_request.py",
    "dashboard/queries/page_renderer.py",
    "dashboard/formats.py",
    "dashboard/forms.py",
    "dashboard/<folder>/page.py",
)


def walk(copy: Copy) -> None:
    copy.create("dashboard/counted/__init__.py", '"""The page with the number of calls."""\n')
    copy.create("dashboard/counted/pages.py", PAGES)
    copy.create("dashboard/templates/counted.html", TEMPLATE)
    copy.insert(
        "dashboard/app.py",
        "from dashboard.counted.pages import CountedPages\n",
        before="from dashboard.export.pages",
    )
    copy.insert(
        "dashboard/app.py",
        "            *CountedPages(site).routes(),\n",
        before="            *OverviewPages(site).routes(),\n",
    )
    copy.insert(
        "dashboard/templates/_top.html",
        '  ("counted", "/counted", "Counted"),\n',
        before='  ("savings", "/savings"',
    )


TRAIL = Trail(
    heading="Add a page",
    walk=walk,
    choices=CHOICES,
    checks={"tests/dashboard/test_walked_page.py": CHECK},
    tests=("extensions/cluster/tests/pages/test_reading_calls.py",),
)
