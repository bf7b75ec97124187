"""Datasette over the trace database of one organisation."""

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment

from dashboard.addresses import raw_path
from dashboard.tables import arguments, errors, rows
from dashboard.tables.environment import page_templates, share_environment
from dashboard.tables.errors import RequestState
from dashboard.tables.metadata import METADATA_PATH
from dashboard.tables.patched_datasette import (
    BadRequest,
    Database,
    Datasette,
    DatasetteError,
    Request,
    Response,
    TableView,
    replace_display,
)
from dashboard.tables.trace_file import TraceFile
from dashboard.tables.views import TracesView

HERE = Path(__file__).parent
SETTINGS = {
    "allow_download": False,
    "default_page_size": 50,
    "facet_time_limit_ms": 1000,
    "max_csv_mb": 1000,  # a million calls without their bodies are 260
    "max_returned_rows": 250,
    "num_sql_threads": 1,
    "sql_time_limit_ms": 3000,
    "suggest_facets": False,
    "template_debug": False,
    "trace_debug": False,
}


replace_display(rows.display)


class TraceBrowser(Datasette):
    """A Datasette over one file, called ``traces``, and nothing else. It stops computing when
    ``abandoned`` is set."""

    def __init__(self, path: Path, abandoned: threading.Event) -> None:
        super().__init__(
            metadata=json.loads(METADATA_PATH.read_text()),
            settings=SETTINGS,
            template_dir=str(HERE / "templates"),
        )
        self.jinja_env: Environment = share_environment(self.jinja_env)
        self.databases: OrderedDict[str, Database] = (
            OrderedDict()
        )  # without _memory, and _internal with its writing thread
        self.abandoned = abandoned
        self.file = self.add_database(TraceFile(self, path), name="traces")
        render, can_render = self.renderers["blob"]
        self.renderers["blob"] = (_only_bodies(render), can_render)

    @classmethod
    def load_templates(cls) -> None:
        """Compile the templates of all pages, which every instance of this process then shares."""
        environment = cls(Path(os.devnull), threading.Event()).jinja_env
        for name in page_templates():
            environment.get_template(name)

    def _routes(self) -> list[tuple[Any, Any]]:
        return [
            (pattern, TracesView.as_view(self))
            if getattr(view, "view_class", None) is TableView
            else (pattern, view)
            for pattern, view in super()._routes()
        ]

    async def permission_allowed(
        self, actor: object, action: str, resource: object = None, default: Any = False
    ) -> Any:
        """Return the default, as Datasette does without plugins and without ``allow`` in the metadata: who
        may read was decided by the choice of the instance. Datasette looks for rules in a copy of all
        metadata, several times for a page."""
        return default

    async def refresh_schemas(self) -> None:
        """Prepare for a request, before which Datasette calls this. The tables of ``_internal`` that it would
        update do not exist here."""
        self.file.begin_request()

    def check(self, request: Request) -> None:
        """Check a request before anything is read. Raises DatasetteError for arguments that
        Datasette cannot handle."""
        given = parse_qsl(request.query_string, keep_blank_values=True)
        error = arguments.find_error(raw_path(request.scope), given)
        if error is not None:
            raise DatasetteError(error, title="Invalid request", status=400)

    async def explain(self, request: Request, exception: Exception) -> Response:
        """Return the response for an error: a page for people, JSON for programs."""
        error = errors.describe(exception, request)
        state: RequestState = request.scope["taximeter"]
        state.is_explained = True
        if state.is_for_program:
            return Response.json(error.as_json(), status=error.status)
        context = {"error": error}
        page = await self.render_template("error.html", context, request, "error")
        return Response.html(page, status=error.status)


def _only_bodies(render: Callable[..., Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
    """Return the renderer of downloads, limited to text and BLOBs. Datasette notices a number only
    after the response has begun."""

    @wraps(render)  # by whose signature Datasette decides what to hand over
    async def render_bodies(*given: Any) -> Response:
        response = await render(*given)
        if not isinstance(response.body, bytes | str):
            raise BadRequest("This column holds nothing that can be downloaded.")
        return response

    return render_bodies
