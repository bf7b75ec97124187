"""The price table, reloaded when the operator's file changes."""

import logging
from contextlib import suppress
from pathlib import Path

from metering.price_format import PriceFileError
from metering.prices import PriceTable
from store.price_file import load_prices

logger = logging.getLogger(__name__)


class LivePrices:
    """Holds the price table, and reads it again when the operator's file changes.

    A file that is not valid is reported and the last valid table stays, at the start the built-in
    one: a typing error must not keep calls from being recorded, and ``taximeter reprice --all``
    corrects their costs afterwards."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._version: tuple[int, int] | None = None
        self._table = load_prices()
        self.refresh()

    def __call__(self) -> PriceTable:
        """Return the table to price by now."""
        return self._table

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        version = self._stat()
        if version == self._version:
            return
        self._version = version
        try:
            self._table = load_prices(self._path)
        except PriceFileError as error:
            logger.error("THE PRICE FILE CANNOT BE USED, the prices from before stay: %s", error)  # noqa: TRY400

    def _stat(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        with suppress(OSError):
            status = self._path.stat()
            return status.st_mtime_ns, status.st_size
        return None
