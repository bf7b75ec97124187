"""The choice of calls whose output is measured, and the characters per token that were found.

Measuring a response takes longer than reading its usage, so it is done for the first calls of each
model and then for few: characters per token of a model change slowly."""

import logging
import sqlite3
from typing import Protocol

from metering.delivered import UNKNOWN_SIZE, OutputSize
from recorder.open_databases import OpenDatabases
from store.traces.sums import output_sizes

logger = logging.getLogger(__name__)

FIRST_CALLS, EVERY = 50, 50
MAX_COUNTS = 10_000


class SizeSource(Protocol):
    """The source of the characters per token with which ``make_entry`` estimates."""

    def is_wanted(self, organization_id: str, model: str | None) -> bool: ...

    def find_size(self, organization_id: str, model: str | None) -> OutputSize: ...


class ConstantSizes:
    """A source without sums of any model, and without measuring."""

    def is_wanted(self, organization_id: str, model: str | None) -> bool:
        """Return False: no output is measured."""
        return False

    def find_size(self, organization_id: str, model: str | None) -> OutputSize:
        """Return sums of 0, so that estimates use the constants."""
        return UNKNOWN_SIZE


class RecordedSizes:
    """The sums in the trace databases. Calls of each model are counted since the recorder started."""

    def __init__(self, databases: OpenDatabases) -> None:
        self._databases = databases
        self._counts: dict[tuple[str, str], int] = {}

    def is_wanted(self, organization_id: str, model: str | None) -> bool:
        """Count a call, and return whether its output should be measured."""
        if model is None:
            return False
        key = organization_id, model
        count = self._counts.get(key, 0)
        if not count and len(self._counts) >= MAX_COUNTS:
            self._counts.clear()
        self._counts[key] = count + 1
        return count < FIRST_CALLS or count % EVERY == 0

    def find_size(self, organization_id: str, model: str | None) -> OutputSize:
        """Return the sums of a model.

        They are 0 if the database cannot be read, so that the estimate uses the constants: most likely
        the entry cannot be stored now either, and will be made again."""
        try:
            connection = self._databases.open(organization_id).connection
            return output_sizes.read_size(connection, model)
        except (sqlite3.Error, OSError) as error:
            logger.info("An estimate is made by the constants: %s", error)
            return UNKNOWN_SIZE
