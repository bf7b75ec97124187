"""The table by which hooks are dispatched to addons."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import fields
from functools import cache
from inspect import isawaitable
from typing import Any

from mitmproxy import addonmanager, exceptions, flow as mitmproxy_flow, hooks, master

logger = logging.getLogger(__name__)


@cache
def _arguments(kind: type[hooks.Hook]) -> tuple[str, ...]:
    """Return the names of a hook's arguments, which ``Hook.args`` looks for anew each time."""
    return tuple(field.name for field in fields(kind))  # type: ignore[arg-type]


class DispatchTable(addonmanager.AddonManager):
    """Calls only the addons that define a hook.

    The stock manager looks for every event's hook in every addon, and for ``update`` after each of
    them; that is about half of the time a small request takes."""

    def __init__(self, owner: master.Master) -> None:
        super().__init__(owner)
        self._table: dict[str, list[Callable[..., Any]]] = {}
        self._unfinished: dict[int, Awaitable[object]] = {}

    def register(self, addon: Any) -> Any:
        self._table.clear()
        return super().register(addon)

    def remove(self, addon: Any) -> None:
        self._table.clear()
        super().remove(addon)

    def start(self, event: hooks.Hook) -> bool:
        """Call the handlers of a hook right now. Returns whether they are all done; what one of
        them left to be awaited is awaited when ``handle_lifecycle`` is called with the same hook."""
        kind: Any = type(event)
        handlers = self._handlers(kind.name)
        arguments = [getattr(event, name) for name in _arguments(kind)] if handlers else ()
        for handler in handlers:
            try:
                result = handler(*arguments)
            except Exception:
                logger.exception("Addon error in %s", event.name)
                continue
            if result is not None and isawaitable(result):
                self._unfinished[id(event)] = result
                return False  # nobody comes after ours, which alone may do this
        return not self._handlers("update")

    async def handle_lifecycle(self, event: hooks.Hook) -> None:
        started = self._unfinished.pop(id(event), None)
        if started is None:
            await self.trigger_event(event)
        else:
            await self._guard(event, started)
        if self._handlers("update"):
            message = event.args()[0]
            if isinstance(message, mitmproxy_flow.Flow):
                await self.trigger_event(hooks.UpdateHook([message]))

    async def trigger_event(self, event: hooks.Hook) -> None:
        for handler in self._handlers(event.name):
            try:
                result = handler(*event.args())
            except exceptions.AddonHalt:
                return
            except exceptions.OptionsError:
                raise
            except Exception:
                logger.exception("Addon error in %s", event.name)
                continue
            if result is not None and isawaitable(result):
                await self._guard(event, result)

    async def _guard(self, event: hooks.Hook, awaitable: Awaitable[object]) -> None:
        try:
            await awaitable
        except Exception:
            logger.exception("Addon error in %s", event.name)

    def _handlers(self, name: str) -> list[Callable[..., Any]]:
        known = self._table.get(name)
        if known is None:
            addons = addonmanager.traverse(self.chain)
            found = [getattr(addon, name, None) for addon in addons]
            known = self._table[name] = [handler for handler in found if callable(handler)]
        return known
