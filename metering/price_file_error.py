"""The error of price files. Commands handle it without loading what reads these."""


class PriceFileError(Exception):
    """A price file that cannot be used. The message names the file and the field."""
