"""The Jinja environment of all pages of the trace browser.

Datasette's own environment awaits every call and every filter in a template, which takes most of the
time of a long page. Nothing in our templates has to be awaited, so their environment is synchronous.
"""

from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    Template,
    TemplateNotFound,
)

from dashboard import formats
from dashboard.tables import cells, downloads, filter_words
from dashboard.template_cache import TemplateCache

_OWN = Path(__file__).with_name("templates")
_OURS = Path(__file__).parents[1] / "templates"
_OF_OURS = ("_calls.html", "_top.html")
_shared: list[Environment] = []


def page_templates() -> list[str]:
    """Return the names of the templates that pages use; those of Datasette for other pages are left out."""
    return [*_OF_OURS, *sorted(path.name for path in _OWN.glob("*.html"))]


class _Synchronous(Template):
    """A synchronous template with the asynchronous method that Datasette calls."""

    async def render_async(self, *args: Any, **kwargs: Any) -> str:
        return self.render(*args, **kwargs)


class _KnownTemplates(ChoiceLoader):
    """A loader that lists its templates once. For each page Datasette first tries names specific to that
    table or query, for which a usual loader would search every folder."""

    def __init__(self, loaders: Sequence[BaseLoader]) -> None:
        super().__init__(loaders)
        self._names = frozenset(self.list_templates())

    def load(
        self, environment: Environment, name: str, globals: MutableMapping[str, Any] | None = None
    ) -> Template:
        if name not in self._names:
            raise TemplateNotFound(name)
        return super().load(environment, name, globals)


def share_environment(own: Environment) -> Environment:
    """Return one environment for all instances, made from the environment of the first one.

    Compiling the templates takes most of the time of a first page, and a megabyte each time. It holds
    nothing of an instance; the data of a page are passed when it is rendered."""
    if not _shared:
        environment = own.overlay(enable_async=False, auto_reload=False)
        environment.template_class = _Synchronous
        formats.add_filters(environment)
        environment.bytecode_cache = TemplateCache(environment, __file__)
        environment.loader = _KnownTemplates([*filter(None, [own.loader]), FileSystemLoader(_OURS)])
        environment.globals.update(cells.GLOBALS | filter_words.GLOBALS | downloads.GLOBALS)
        _shared.append(environment)
    return _shared[0]
