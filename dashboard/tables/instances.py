"""One Datasette for each organisation, with the trace database of that organisation alone.

So access is decided once, by the choice of the instance, and not by each of Datasette's pages and hooks.
The database is called ``traces`` in all of them. Datasette 0.65 keeps connections by database name in
thread-local storage, so with a shared thread one organisation would read another's file (datasette
#2465). Here an instance has a thread of its own and keeps its one connection itself. Closing is queued
after the work of that thread, so no connection is closed during a query.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from starlette.types import ASGIApp

from dashboard.queries.protocol import MAX_OPEN
from dashboard.tables.trace_browser import TraceBrowser
from store.traces.paths import FileId, identify_file, trace_path_in


@dataclass(slots=True, kw_only=True)
class Instance:
    browser: TraceBrowser
    app: ASGIApp
    file_id: FileId
    users: int = 0
    is_retired: bool = False

    def close(self) -> None:
        # What nothing refers to any more gives back its thread's stack; the browser lives on until the
        # collector finds it, and eight megabytes of addresses for each would be more than there are.
        executor, self.browser.executor = self.browser.executor, None
        executor.submit(self.browser.file.close)
        # Not waited for, an ended thread keeps the address space of its stack until it is collected.
        executor.shutdown(wait=True)


@dataclass(slots=True)
class Instances:
    """The instances that were used last, which stay open. Use it from the event loop's thread only."""

    traces: Path
    abandoned: threading.Event = field(default_factory=threading.Event)
    max_open: int = MAX_OPEN
    _open: OrderedDict[str, Instance] = field(default_factory=OrderedDict)

    @contextmanager
    def use(self, organization_id: str) -> Iterator[ASGIApp | None]:
        """Yield the Datasette of an organisation, open until the end of the block.

        None if nothing has been recorded."""
        instance = self._find(organization_id)
        if instance is None:
            yield None
            return
        instance.users += 1
        try:
            yield instance.app
        finally:
            instance.users -= 1
            if instance.is_retired and not instance.users:
                instance.close()
            self._shrink()

    def close(self) -> None:
        for organization_id in list(self._open):
            self._retire(organization_id)

    def __len__(self) -> int:
        return len(self._open)

    def _find(self, organization_id: str) -> Instance | None:
        path = trace_path_in(self.traces, organization_id)
        file_id = identify_file(path)
        instance = self._open.get(organization_id)
        if instance is not None and instance.file_id != file_id:
            self._retire(organization_id)
            instance = None
        if file_id is None:
            return None
        if instance is None:
            browser = TraceBrowser(path, self.abandoned)
            instance = Instance(browser=browser, app=browser.app(), file_id=file_id)
            self._open[organization_id] = instance
        self._open.move_to_end(organization_id)
        return instance

    def _shrink(self) -> None:
        """Close the least recently used instances above ``max_open``, except those in use.

        There are no more in use than organisations with a request in progress."""
        surplus = len(self._open) - self.max_open
        idle = [key for key, instance in self._open.items() if not instance.users]
        for organization_id in idle[: max(surplus, 0)]:
            self._retire(organization_id)

    def _retire(self, organization_id: str) -> None:
        instance = self._open.pop(organization_id)
        instance.is_retired = True
        if not instance.users:
            instance.close()
