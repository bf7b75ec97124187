"""The price table of pages, loaded when the first one needs it: that takes a tenth of a second."""

from functools import cached_property
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Protocol

from metering.other_models import Prices


class _Live(Protocol):
    def refresh(self) -> None: ...
    def __call__(self) -> Prices: ...


class PagePrices:
    """The prices that pages compute with, also those of the operator's file as it is now."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = Lock()

    def __call__(self) -> Prices:
        """Return the table to price by now."""
        with self._lock:
            self._live.refresh()
            return self._live()

    @cached_property
    def _live(self) -> _Live:
        live: _Live = import_module("store.price_file").LivePrices(self._path)
        return live
