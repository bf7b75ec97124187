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
    """Return the price table: the prices of the operator's file, if there is one, then the built-in ones.

    ``may_be_pipe`` allows a pipe, for a command that reads it once. Raises PriceFileError."""
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
    """The current price table, read again when the operator's file changes.

    If the file is not valid, an error is logged and the last valid table stays (the built-in one at the
    start): a typing error must not keep calls from being recorded, and ``taximeter reprice --all``
    corrects their costs afterwards."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._version: tuple[int, int] | None = None
        self._table = load_prices()
        self.refresh()

    def __call__(self) -> PriceTable:
        """Return the current price table."""
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
