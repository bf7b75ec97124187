"""The operator's price file: read from disk, and read again when it changes."""

import logging
import stat
from contextlib import suppress
from pathlib import Path

from metering.price_file_error import PriceFileError
from metering.price_format import (
    MAX_CHARACTERS,
    check_size,
    parse_price_file,
)
from metering.prices import PriceTable


def load_prices(path: Path | None = None, *, may_be_pipe: bool = False) -> PriceTable:
    """Return the built-in prices, with those of the operator's file before them where there is one.

    ``may_be_pipe``: for a command, which somebody waits for and which reads it once. Raises
    PriceFileError."""
    if path is None:
        return PriceTable()
    try:
        status = path.stat()
        is_pipe = may_be_pipe and stat.S_ISFIFO(status.st_mode)
        if not stat.S_ISREG(status.st_mode) and not is_pipe:  # reading it might never end
            raise PriceFileError(f"{path.name}: it is not a file")
        check_size(status.st_size, path.name)
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        raise PriceFileError(f"{path.name}: {error}") from error
    return PriceTable(parse_price_file(text, path.name))


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
