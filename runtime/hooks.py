"""The hooks by which an extension adds to Taximeter: their specifications.

An extension is a module with functions of these names, each marked with ``@hookimpl``; pluggy calls them, and
gives each of the parameters that it takes. Those in ``extensions/`` come with the program: they run within
its processes, and an error there is an error of the program. Those of others implement ``commands`` and
``calls_were_stored`` alone, which are never called in a process that calls or entries pass through; see
``docs/extensions.md``. A parameter ``settings`` is ``runtime.settings.Settings``, which reads settings by the
first of these hooks, and so cannot be named here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pluggy

from runtime.extension_values import CallNotice, DataFile, Health, PageLink, ProcessSpec
from runtime.node import Node
from runtime.setting import Setting

NAME = "taximeter"
hookspec = pluggy.HookspecMarker(NAME)
hookimpl = pluggy.HookimplMarker(NAME)


@hookspec
def settings() -> Mapping[str, Sequence[Setting[Any]]]:
    """Return settings by the title of their group. Called once in every process, before settings are read.

    Their values are ``Settings.of(setting)``."""
    raise NotImplementedError


@hookspec(firstresult=True)
def node(values: Mapping[str, Any]) -> Node | None:
    """Return what of the service runs on this machine, None for all of it.

    Called wherever settings are read, with all values by the names of the settings. SettingsError says which
    of them do not go together."""
    raise NotImplementedError


@hookspec
def commands() -> Mapping[str, Any]:
    """Return Click commands by their names, or the names of the modules that have them.

    Called on the command line, of an extension of others where a command is unknown or all are listed. One
    that raises is left out, with a line on standard error."""
    raise NotImplementedError


@hookspec
def before_start(settings: Any, environ: Mapping[str, str], warn: Callable[[str], None]) -> None:
    """Prepare a start of the service: called in ``taximeter up`` before its first process starts.

    StartError ends it with a message; ``warn`` prints a line. ``environ`` has all variables."""
    raise NotImplementedError


@hookspec
def processes(settings: Any, environ: Mapping[str, str]) -> Sequence[ProcessSpec]:
    """Return processes that the supervisor starts, watches and stops beside those of the service.

    Called in ``taximeter up`` after ``before_start``. ``environ`` has all variables."""
    raise NotImplementedError


@hookspec
def private_variables() -> Sequence[str]:
    """Return beginnings of variables that no process gets to which ``processes`` does not give them.

    Called in ``taximeter up``: what authenticates an extension elsewhere is not for all processes."""
    raise NotImplementedError


@hookspec(firstresult=True)
def call_limits(settings: Any, own: Any, count_rejection: Any) -> Any:
    """Return limits that hold for more than this machine (``addon.rate_limits.CallLimits``), or None.

    Called once, when a process of the proxy starts, which ends if it raises. ``own`` are the limits of this
    machine, and ``count_rejection`` is told of each call that is refused."""
    raise NotImplementedError


@hookspec(firstresult=True)
def stated_callers(settings: Any, pool: Any, bad_keys: Any) -> Any:
    """Return the callers of a machine without people (``dashboard.visitors.StatedCallers``), or None.

    Called once, when the web process starts, which ends if it raises. ``pool`` has connections to
    ``control.db``, and ``bad_keys`` is the limit on unknown keys."""
    raise NotImplementedError


@hookspec(firstresult=True)
def front_door(settings: Any, app: Any, routes: Any, visitors: Any, pool: Any) -> Any:
    """Return what takes requests before ``app`` (``manage.server.FrontDoor``), or None.

    Called as ``stated_callers`` is. ``routes`` say which requests read calls, and ``visitors`` who makes a
    request."""
    raise NotImplementedError


@hookspec(firstresult=True)
def copies(data_dir: Path) -> Any:
    """Return the copies of all calls of which a data directory has a part, or None.

    They are a ``store.copies.Copies``. Called on the command line, and in threads of the web process for each
    budget that is shown and each order to erase calls. An error fails the command or the request."""
    raise NotImplementedError


@hookspec(firstresult=True)
def backend(
    data_dir: Path, local: Any, control: Any, caller: Any, tell: Callable[[str], None]
) -> Any:
    """Return what carries out operations for a caller whose calls are on other machines, or None.

    Called on the command line for a command that acts on this machine, which ends if it raises. The result
    is a ``manage.cli.backend.Backend``, to be entered; ``local`` is that of this machine, ``control`` its
    ``control.db``, and ``tell`` prints a line on standard error."""
    raise NotImplementedError


@hookspec(firstresult=True)
def erasure_work(settings: Any) -> Any:
    """Return what carries out orders to erase calls where this machine does not have all calls, or None.

    It is a ``store.erasure_work.ErasureWork``. Called once, when the recorder starts; an error ends that."""
    raise NotImplementedError


@hookspec
def health(node: Node, data_dir: Path) -> Health | None:
    """Return how the extension does on this machine, None where it does nothing there.

    Called in the proxy for each ``/healthz``, and where that has ``/metrics`` for each of these, otherwise in
    the web process. It reads a small file at most; what it raises fails the response."""
    raise NotImplementedError


@hookspec
def operations() -> Sequence[Any]:
    """Return operations of the management API, each a ``manage.api.operation.Operation``.

    Called once, in the web process and wherever else the table of operations is loaded."""
    raise NotImplementedError


@hookspec
def pages(site: Any) -> Sequence[Any]:
    """Return the routes of pages, for ``starlette``. ``site`` is a ``dashboard.site.Site``.

    Called once in the web process, before the first request; an error of a page fails its response alone. The
    templates in the extension's folder ``templates`` are found by their names."""
    raise NotImplementedError


@hookspec
def page_links() -> Sequence[PageLink]:
    """Return links to pages of the extension from other pages. Called for each of these."""
    raise NotImplementedError


@hookspec
def security_section(site: Any, visitor: Any) -> Any:
    """Return the markup of a section for the page “Security” of the settings, None where there is none.

    It is a ``markupsafe.Markup``. Called for each such page in a thread of the web process; an error fails
    the page. ``site`` is a ``dashboard.site.Site``, ``visitor`` who reads it."""
    raise NotImplementedError


@hookspec
def call_notices(data_dir: Path, caller: Any, usage_ids: Sequence[int]) -> Mapping[int, CallNotice]:
    """Return warnings about calls in the organisation of the caller, by row id.

    Called for each page of a call, and with all calls for each page of a session, in a thread of the web
    process. sqlite3.Error makes the page a 503."""
    raise NotImplementedError


@hookspec
def home_notice(data_dir: Path, caller: Any, since: str) -> CallNotice | None:
    """Return a warning about calls from an instant on for the alerts of the home page, or None.

    Called for each home page with calls in a thread of the web process. sqlite3.Error: the page says that
    figures cannot be read."""
    raise NotImplementedError


@hookspec
def data_files() -> Sequence[DataFile]:
    """Return the files of the data directory, with what a backup does with each of them.

    Called in processes that make or restore a backup, or move organisations to another node. Those of an
    organisation are ``traces/*/NAME``, and no other one is copied."""
    raise NotImplementedError


@hookspec
def recorder_work(settings: Any, databases: Any, clock_s: Callable[[], float]) -> Sequence[Any]:
    """Return work on stored calls for the recorder in the background, each a ``BackgroundWork``.

    Called in the recorder at its start. ``databases`` is its ``OpenDatabases``, ``clock_s`` a monotonic
    clock. A step that raises is logged, and tried again later."""
    raise NotImplementedError


@hookspec
def calls_were_removed(path: Path, traces: Any, is_erased: bool) -> Iterator[None]:
    """Remove what is kept of calls that are no longer in a trace database, a little between two yields.

    Called where retention or an order to erase has removed calls: in the recorder, and in
    ``taximeter prune``. ``path`` is that of the database, ``traces`` its ``sqlite3.Connection``.
    ``is_erased``: nothing of them may remain in any file afterwards. sqlite3.Error and OSError let it be
    tried again later."""
    raise NotImplementedError


@hookspec
def metrics(data_dir: Path) -> Iterable[Any]:
    """Return metrics of the whole service, as metric families of ``prometheus_client``.

    Called in a thread of the web process for each scrape by the operator. What cannot be read is left out and
    logged by the extension; an error fails the scrape."""
    raise NotImplementedError


@hookspec
def calls_were_stored(organization_id: str, calls: Sequence[Mapping[str, Any]]) -> None:
    """Learn of calls that are stored: a batch of up to 100 of an organisation, in that order.

    Called in a process for extensions of others, after the commit, each call once; after a crash some of the
    last batch again. A new extension begins with what is stored from then on. A call has columns of
    ``usage_log`` (docs/tables.md), without bodies. An extension that raises or takes longer than half a
    minute is left out until the service starts again, and then goes on with that batch."""
    raise NotImplementedError
