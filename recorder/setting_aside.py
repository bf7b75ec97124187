"""Setting aside a spool file that cannot be recorded: it is kept and reported."""

import logging
from pathlib import Path

from store.spool import reader
from store.spool.reader import Waiting

logger = logging.getLogger(__name__)


def set_aside(spool_root: Path, waiting: Waiting, error: Exception) -> None:
    """Move a file to a folder that the recorder does not read, and log its new path and the error."""
    target = reader.set_aside(spool_root, waiting.path)
    logger.error("A spool file cannot be recorded (%s); it is kept as %s", error, target)
