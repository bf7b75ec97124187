"""The hook specifications: the functions by which an extension adds to Taximeter.

An extension is a module with functions of these names, each marked with ``@hookimpl``; pluggy calls
them, and passes each the parameters that it has. Extensions in ``extensions/`` come with the program:
they run in its processes, and an error there is an error of the program. Third-party extensions
implement only ``commands`` and ``calls_were_stored``, which are never called in a process that handles
calls or entries; see ``docs/extensions.md``. A parameter ``settings`` is a
``runtime.settings.Settings``; that module reads settings by the first of these hooks, so it cannot be
imported here."""

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
    """Return the part of the service that runs on this machine, None for all of it.

    Called whenever settings are read, with all values by the names of the settings. May raise
    SettingsError for values that conflict."""
    raise NotImplementedError


@hookspec
def commands() -> Mapping[str, Any]:
    """Return Click commands by name, or names of modules that have them.

    Called on the command line; for third-party extensions only to list all commands, or for an unknown
    one. An extension that raises is left out, with a line on standard error."""
    raise NotImplementedError


@hookspec
def before_start(settings: Any, environ: Mapping[str, str], warn: Callable[[str], None]) -> None:
    """Prepare a start of the service: called in ``taximeter up`` before its first process starts.

    A StartError ends the start with its message; ``warn`` prints a line. ``environ`` has all
    variables."""
    raise NotImplementedError


@hookspec
def processes(settings: Any, environ: Mapping[str, str]) -> Sequence[ProcessSpec]:
    """Return processes for the supervisor to start, watch and stop, in addition to the service's own.

    Called in ``taximeter up`` after ``before_start``. ``environ`` has all variables."""
    raise NotImplementedError


@hookspec
def private_variables() -> Sequence[str]:
    """Return prefixes of environment variables that only processes of ``processes`` may get.

    Called in ``taximeter up``. These are for credentials of an extension."""
    raise NotImplementedError


@hookspec(firstresult=True)
def call_limits(settings: Any, own: Any, count_rejection: Any) -> Any:
    """Return limits that hold for more than this machine (``addon.rate_limits.CallLimits``), or None.

    Called once, when a process of the proxy starts; if it raises, the process ends. ``own`` are the
    limits of this machine, and ``count_rejection`` is to be called for each refused call."""
    raise NotImplementedError


@hookspec(firstresult=True)
def stated_callers(settings: Any, pool: Any, bad_keys: Any) -> Any:
    """Return how the web process finds the caller of a request if another machine signs users in.

    That is a ``dashboard.visitors.StatedCallers``, or None if users sign in here. Called once, when the
    web process starts; if it raises, the process ends. ``pool`` has connections to ``control.db``, and
    ``bad_keys`` is the limit on unknown keys."""
    raise NotImplementedError


@hookspec(firstresult=True)
def front_door(settings: Any, app: Any, routes: Any, visitors: Any, pool: Any) -> Any:
    """Return an application that gets requests before ``app`` (``manage.server.FrontDoor``), or None.

    Called once, when the web process starts; if it raises, the process ends. ``routes`` say which
    requests read calls, and ``visitors`` finds the caller of a request."""
    raise NotImplementedError


@hookspec(firstresult=True)
def copies(data_dir: Path) -> Any:
    """Return the copies of all calls if this data directory has a part of one, or None.

    The result is a ``store.copies.Copies``. Called on the command line, and in threads of the web
    process for each budget that is shown and each order to erase calls. An error fails the command or
    the request."""
    raise NotImplementedError


@hookspec(firstresult=True)
def backend(
    data_dir: Path, local: Any, control: Any, caller: Any, tell: Callable[[str], None]
) -> Any:
    """Return a backend for a caller whose calls are on other machines, or None.

    Called on the command line for a command that acts on this machine; if it raises, the command ends.
    The result is a ``manage.cli.backend.Backend`` and a context manager; ``local`` is the backend of
    this machine, ``control`` its ``control.db``, and ``tell`` prints a line on standard error."""
    raise NotImplementedError


@hookspec(firstresult=True)
def erasure_work(settings: Any) -> Any:
    """Return the work that carries out erasures if this machine does not have all calls, or None.

    The result is a ``store.erasure_work.ErasureWork``. Called once, when the recorder starts; an error
    ends the recorder."""
    raise NotImplementedError


@hookspec
def health(node: Node, data_dir: Path) -> Health | None:
    """Return the state of the extension on this machine, None if it does nothing there.

    Called in the proxy for each ``/healthz``, and for each ``/metrics`` in the process that serves
    that. It may read a small file at most; an exception fails the response."""
    raise NotImplementedError


@hookspec
def operations() -> Sequence[Any]:
    """Return operations of the management API, each a ``manage.api.operation.Operation``.

    Called once, in the web process and wherever else the table of operations is loaded."""
    raise NotImplementedError


@hookspec
def pages(site: Any) -> Sequence[Any]:
    """Return the routes of pages, for ``starlette``. ``site`` is a ``dashboard.site.Site``.

    Called once in the web process, before the first request; an error in a page fails only its
    response. Templates are found by name in the extension's folder ``templates``."""
    raise NotImplementedError


@hookspec
def page_links() -> Sequence[PageLink]:
    """Return links from other pages to the extension's pages. Called for each of those other pages."""
    raise NotImplementedError


@hookspec
def security_section(site: Any, visitor: Any) -> Any:
    """Return the markup of a section for the settings page “Security”, or None.

    It is a ``markupsafe.Markup``. Called for each such page in a thread of the web process; an error
    fails the page. ``site`` is a ``dashboard.site.Site``, ``visitor`` the reader of the page."""
    raise NotImplementedError


@hookspec
def call_notices(data_dir: Path, caller: Any, usage_ids: Sequence[int]) -> Mapping[int, CallNotice]:
    """Return warnings about calls in the organisation of the caller, by row id.

    Called in a thread of the web process, for each page of a call with one id, and for each page of a
    session with all of its calls. An sqlite3.Error makes the response a 503."""
    raise NotImplementedError


@hookspec
def home_notice(data_dir: Path, caller: Any, since: str) -> CallNotice | None:
    """Return a warning about calls since the instant ``since`` for the alerts of the home page, or None.

    Called in a thread of the web process for each home page with calls. After an sqlite3.Error the
    page says that figures cannot be read."""
    raise NotImplementedError


@hookspec
def data_files() -> Sequence[DataFile]:
    """Return the files that the extension has in the data directory, with the rule for backups of each.

    Called in processes that make or restore a backup, or move organisations to another node. Files of
    an organisation have the pattern ``traces/*/NAME``; no others are moved with it."""
    raise NotImplementedError


@hookspec
def recorder_work(settings: Any, databases: Any, clock_s: Callable[[], float]) -> Sequence[Any]:
    """Return background work on stored calls for the recorder, each a ``BackgroundWork``.

    Called in the recorder at its start. ``databases`` is its ``OpenDatabases``, ``clock_s`` a
    monotonic clock. A step that raises is logged, and tried again later."""
    raise NotImplementedError


@hookspec
def calls_were_removed(path: Path, traces: Any, is_erased: bool) -> Iterator[None]:
    """Remove data of calls that are no longer in a trace database, a small part between two yields.

    Called after retention or an erasure has removed calls: in the recorder, and in ``taximeter
    prune``. ``path`` is the path of the database, ``traces`` its ``sqlite3.Connection``.
    ``is_erased``: nothing of the calls may remain in any file afterwards. After an sqlite3.Error or
    OSError it is tried again later."""
    raise NotImplementedError


@hookspec
def metrics(data_dir: Path) -> Iterable[Any]:
    """Return metrics of the whole service, as metric families of ``prometheus_client``.

    Called in a thread of the web process for each scrape by the operator. The extension leaves out and
    logs what it cannot read; an error fails the scrape."""
    raise NotImplementedError


@hookspec
def calls_were_stored(organization_id: str, calls: Sequence[Mapping[str, Any]]) -> None:
    """Process stored calls: a batch of up to 100 calls of an organisation, in the order of storing.

    Called in the process for third-party extensions, after the commit, once for each call; after a
    crash some calls of the last batch are repeated. A new extension gets only calls stored from then
    on. A call has columns of ``usage_log`` (docs/tables.md), without bodies. An extension that raises
    or takes longer than half a minute is disabled until the service starts again, and then continues
    with that batch."""
    raise NotImplementedError
