"""The error of price files. Commands handle it without loading what reads these."""


class PriceFileError(Exception):
    """An unusable price file. The message names the file and the field."""
