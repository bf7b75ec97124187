"""The operator's price file, read from disk and parsed by ``metering.price_format``."""

import stat
from pathlib import Path

from metering.price_format import (
    MAX_CHARACTERS,
    PriceFileError,
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
