"""Ending a process in the middle of its work on a database, as a kill does."""

import os
import sqlite3


def die_after(connection: sqlite3.Connection, statements: int) -> None:
    """End this process, without any cleaning up, at the last of so many statements from here on."""
    left = statements

    def count_down(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os._exit(9)

    connection.set_trace_callback(count_down)
