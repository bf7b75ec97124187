"""Running the hooks of a call: directly, for ``python -m addon`` alone, or by mitmproxy.

mitmproxy makes a task for each hook, and asks every addon for it and for ``update`` after it. With
eight hooks a call that is half of the time of a small call."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from mitmproxy import addonmanager, http
from mitmproxy.proxy import commands
from mitmproxy.proxy.layers.http import _hooks

from addon.http1.client_side import ClientInput
from addon.http1.upstream import Commands

logger = logging.getLogger(__name__)

type FlowHook = (
    _hooks.HttpRequestHeadersHook
    | _hooks.HttpRequestHook
    | _hooks.HttpResponseHeadersHook
    | _hooks.HttpResponseHook
    | _hooks.HttpErrorHook
)


@dataclass(eq=False)
class TaximeterAwaitedHook(commands.StartHook):
    """An awaitable that a handler of a hook has returned, for mitmproxy to await before the layer goes on."""

    work: Awaitable[object]


class HookTable:
    """Calls the addons that define a hook. They are searched once, so no addon may be added later."""

    def __init__(self, addons: addonmanager.AddonManager) -> None:
        self._addons = addons
        self._table: dict[str, list[Callable[..., Any]]] = {}

    def run(self, name: str, flow: http.HTTPFlow) -> commands.StartHook | None:
        """Call the handlers of a hook; return a command that awaits the rest of their work, or None.

        Of several handlers only the last may return an awaitable."""
        handlers = self._table.get(name)
        if handlers is None:
            handlers = self._find(name)
        for handler in handlers:
            try:
                result = handler(flow)
            except Exception:
                logger.exception("Addon error in %s", name)
                continue
            if result is not None and isawaitable(result):
                return TaximeterAwaitedHook(result)
        return None

    def _find(self, name: str) -> list[Callable[..., Any]]:
        addons = addonmanager.traverse(self._addons.chain)
        found = [getattr(addon, name, None) for addon in addons]
        self._table[name] = [handler for handler in found if callable(handler)]
        return self._table[name]


class Hooks:
    """Runs the hooks of a client connection."""

    def __init__(self, held: ClientInput, table: HookTable | None) -> None:
        """Make the hooks of a connection, which ``table`` runs; if it is None, mitmproxy.

        ``held`` keeps the data that arrive while a hook runs."""
        self._held = held
        self._table = table

    def run(self, kind: type[FlowHook], flow: http.HTTPFlow) -> Commands:
        """Run a hook, and wait until its handlers have finished."""
        left = kind(flow) if self._table is None else self._table.run(kind.name, flow)
        if left is not None:
            self._held.awaits_hook = True
            yield left
            self._held.awaits_hook = False
