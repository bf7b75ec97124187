"""Helpers for tests of the spool: reading it, and making its writes fail."""

import os

from runtime import clock
from store.spool import reader

ARRIVED_AT = clock.parse_instant("2026-01-02T03:04:05.678Z")


def read_all(root):
    """Return the exchanges that wait in a spool folder."""
    return [reader.read_exchange(waiting.path) for waiting in reader.find_waiting(root)]


def fail(number):
    """Return a function that raises an OSError."""

    def call(*_):
        raise OSError(number, os.strerror(number))

    return call


def fail_with(monkeypatch, number):
    """Let every write to the spool fail."""
    monkeypatch.setattr("store.spool.writer.os.writev", fail(number))
