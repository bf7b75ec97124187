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
from dashboard.tables import arguments, datasette_patches, errors, views
from dashboard.tables.environment import page_templates, share_environment
from dashboard.tables.errors import RequestState
from dashboard.tables.lean_datasette import (
    BadRequest,
    Database,
    Datasette,
    DatasetteError,
    Request,
    Response,
    datasette,
    hookimpl,
    pm,
)
from dashboard.tables.metadata import METADATA_PATH
from dashboard.tables.trace_file import TraceFile

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


class TraceBrowser(Datasette):
    """A Datasette with a single database, called ``traces``. It stops computing if ``abandoned`` is set."""

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

    @classmethod
    def load_templates(cls) -> None:
        """Compile the templates of all pages, so that every instance of this process shares them."""
        environment = cls(Path(os.devnull), threading.Event()).jinja_env
        for name in page_templates():
            environment.get_template(name)

    async def permission_allowed(
        self, actor: object, action: str, resource: object = None, default: Any = False
    ) -> Any:
        """Return ``default``, as Datasette does without plugins and without ``allow`` in the metadata.

        The choice of the instance has decided who may read. Datasette would look for rules in a copy of
        all metadata, several times for a page."""
        return default

    async def refresh_schemas(self) -> None:
        """Prepare for a request; Datasette calls this before each.

        The tables of ``_internal`` that Datasette would update do not exist here."""
        self.file.begin_request()

    def check(self, request: Request) -> None:
        """Check a request before anything is read. Raises DatasetteError if Datasette cannot handle an
        argument."""
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


class Hooks:
    """Our plugin for Datasette. It changes trace browsers only: a plain Datasette in the same process, as
    in the tests of the metadata file, works as usual."""

    __name__ = "taximeter"  # where Datasette looks for templates and files of a plugin

    @hookimpl
    def register_routes(self, datasette: Datasette) -> list[tuple[str, Any]]:
        if not isinstance(datasette, TraceBrowser):
            return []
        return [(route, view.as_view(datasette)) for route, view in ROUTES.items()]

    @hookimpl(trylast=True)  # what is registered last holds
    def register_output_renderer(self, datasette: Datasette) -> Any:
        return _BLOBS if isinstance(datasette, TraceBrowser) else []

    @hookimpl
    def handle_exception(self, datasette: Datasette, request: Request, exception: Exception) -> Any:
        """Return the coroutine that makes the response for an error."""
        if isinstance(datasette, TraceBrowser):
            return datasette.explain(request, exception)
        return _print_exception(datasette, request, exception)


_render_blob: Callable[..., Awaitable[Response]] = datasette.blob_renderer.render_blob


@wraps(_render_blob)  # by whose signature Datasette decides what to hand over
async def _render_body(*given: Any) -> Response:
    """Return a download of one value. Raises BadRequest if it is neither text nor a BLOB."""
    response = await _render_blob(*given)
    if not isinstance(response.body, bytes | str):
        raise BadRequest("This column holds nothing that can be downloaded.")
    return response


ROUTES = {
    r"/(?P<database>traces)(\.(?P<format>\w+))?$": views.FileView,
    r"/(?P<database>traces)/(?P<table>[^\/\.]+)(\.(?P<format>\w+))?$": views.TracesView,
    r"/(?P<database>traces)/(?P<table>[^/]+?)/(?P<pks>[^/]+?)(\.(?P<format>\w+))?$": views.EntryView,
}
_BLOBS = {"extension": "blob", "render": _render_body, "can_render": lambda: False}
_print_exception = datasette.handle_exception.handle_exception

datasette_patches.apply()
# All plugins are called for an exception, and this one prints it.
pm.unregister(name="datasette.handle_exception")
pm.register(Hooks(), Hooks.__name__)
