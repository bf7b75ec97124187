"""The operator's price file, read from disk and parsed by ``metering.price_format``."""

import stat
from pathlib import Path

from metering.price_format import PriceFileError, check_size, parse_price_file
from metering.prices import PriceTable


def load_prices(path: Path | None = None) -> PriceTable:
    """Return the built-in prices, with those of the operator's file before them where there is one.

    Raises PriceFileError."""
    if path is None:
        return PriceTable()
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device might never end
            raise PriceFileError(f"{path.name}: it is not a file")
        check_size(status.st_size, path.name)
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise PriceFileError(f"{path.name}: {error}") from error
    return PriceTable(parse_price_file(text, path.name))
