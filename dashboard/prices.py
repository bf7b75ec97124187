"""The prices for pages. They are loaded at the first use, since that takes a tenth of a second."""

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
    """The prices that pages use, with the present content of the operator's price file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = Lock()

    def __call__(self) -> Prices:
        """Return the present prices, after reading the operator's file again if it changed."""
        with self._lock:
            self._live.refresh()
            return self._live()

    @cached_property
    def _live(self) -> _Live:
        live: _Live = import_module("store.price_file").LivePrices(self._path)
        return live
