"""How every process of ours logs: one line per record on standard error, with its name and time."""

import logging
import sys


def configure(process: str) -> None:
    """Warnings and worse of everybody. mitmproxy's own INFO lines can quote raw requests, with
    their credentials, so they must never be written."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format=f"%(asctime)s {process:8} %(levelname)s %(message)s",
        datefmt="%H:%M:%S",
        force=True,
    )
