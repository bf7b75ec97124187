"""Shared parts of the import commands: the target organisation, groups of new calls, progress."""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple, Self

import click

from manage.cli.backend_choice import find_caller
from manage.cli.console import (
    BackendError,
    Command,
    data_dir_option,
    explained,
    json_option,
    open_control,
    print_json,
    read_settings,
    tell_of_other_nodes,
    user_option,
)
from manage.cli.import_store import ImportStore
from metering.formats import format_calls, format_count, format_objects
from runtime.settings import Settings
from store import call_imports
from store.control.endpoints import ProxyEndpoint, make_not_found
from store.copies import find_copies
from store.traces.calls.exported_object import find_known_objects
from store.traces.paths import trace_path

GROUP_CALLS = 200
GROUP_BYTES = 4 << 20
PROGRESS_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The organisation that calls are imported into, with its endpoints by slug."""

    settings: Settings
    organization_id: str
    endpoints: Mapping[str, ProxyEndpoint]

    @classmethod
    def find(cls, settings: Settings, user: str | None) -> Self:
        """Return the target for the organisation of ``user``, or of the local user if None.

        Raises NotFoundError, and BackendError if other nodes keep its calls."""
        with open_control(settings) as control:
            organization_id = find_caller(settings, control, user).organization_id
            endpoints = control.list_endpoints(organization_id)
        tell_of_other_nodes(settings)
        copies = find_copies(settings.data_dir)
        if copies is not None and copies.is_elsewhere(organization_id):
            raise BackendError("this node does not keep the calls of your organisation")
        return cls(
            settings=settings,
            organization_id=organization_id,
            endpoints={each.slug: each for each in endpoints},
        )

    def get_endpoint(self, slug: str) -> ProxyEndpoint:
        """Return the endpoint with a slug. Raises NotFoundError."""
        if slug not in self.endpoints:
            raise make_not_found(slug, sorted(self.endpoints))
        return self.endpoints[slug]


@dataclass(slots=True)
class Result:
    """The counts of calls, managed sessions and dreams that were imported, already there or left out.

    ``left_out`` counts by reason. ``new_objects`` are the managed sessions and dreams among ``new``."""

    new: int = 0
    new_objects: int = 0
    already_there: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def make_document(self) -> dict[str, Any]:
        """Return the counts as a JSON document."""
        return {
            "new": self.new,
            "already_there": self.already_there,
            "left_out": dict(self.left_out),
        }

    def describe_new(self) -> str:
        """Return what was imported, as a part of a sentence: ``3 calls``."""
        calls = format_calls(self.new - self.new_objects)
        return f"{calls} and {format_objects(self.new_objects)}" if self.new_objects else calls

    def describe_others(self) -> str:
        """Return the end of the sentence: how many were already there or left out, empty if none were."""
        others = [(self.already_there, "there already")]
        others += [(count, f"left out ({why})") for why, count in sorted(self.left_out.items())]
        return "".join(
            f"; {format_count(count)} {'was' if count == 1 else 'were'} {what}"
            for count, what in others
            if count
        )

    def print(self, *, as_json: bool) -> None:
        """Print the counts, as a sentence or as a JSON document."""
        if as_json:
            print_json(self.make_document())
        else:
            click.echo(f"Imported {self.describe_new()}{self.describe_others()}.")


def import_options(command: Command) -> Command:
    """Add the options that all import commands have."""
    return user_option(data_dir_option(json_option(command)))


@contextmanager
def open_import(user: str | None, data_dir: str | None) -> Iterator[tuple[Target, ImportStore]]:
    """Open the target organisation and its store. Errors that the user can correct become one line."""
    with explained():
        settings = read_settings(data_dir=data_dir)
        target = Target.find(settings, user)
        with closing(ImportStore(settings.data_dir, target.organization_id)) as store:
            yield target, store


class _ObjectLine(NamedTuple):
    read_at: str
    line: bytes


class Writer:
    """Stores calls in groups, except those that are already there.

    A call is already there if an entry has its id or, if ``message_id`` is given, the same upstream
    message."""

    def __init__(
        self, target: Target, store: ImportStore, result: Result, own_prefix: str = ""
    ) -> None:
        """Store into ``target``.

        An entry whose id begins with ``own_prefix`` is no duplicate because of its message, only
        because of its id."""
        self._path = trace_path(target.settings.data_dir, target.organization_id)
        self._store = store
        self._result = result
        self._own_prefix = own_prefix
        self._group: dict[str, bytes] = {}  # lines of an export by entry id
        self._messages: dict[str, str] = {}  # ids of messages by entry id
        self._objects: dict[str, _ObjectLine] = {}
        self._bytes = 0

    def add(self, entry_id: str, line: bytes, message_id: str | None = None) -> None:
        """Add a call to the group that is stored next. Raises BackendError, sqlite3.Error, OSError."""
        if entry_id in self._group:
            self._result.already_there += 1
            return
        self._group[entry_id] = line
        if message_id is not None:
            self._messages[entry_id] = message_id
        self._take(line)

    def add_object(self, object_id: str, read_at: str, line: bytes) -> None:
        """Add the newest reading of a managed session or dream to the group. Raises as ``add`` does."""
        if object_id in self._objects:
            self._result.already_there += 1
            if self._objects[object_id].read_at >= read_at:
                return
        self._objects[object_id] = _ObjectLine(read_at, line)
        self._take(line)

    def _take(self, line: bytes) -> None:
        self._bytes += len(line)
        if len(self._group) + len(self._objects) >= GROUP_CALLS or self._bytes >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Store the calls and objects of the group that are not there yet. Raises as ``add`` does."""
        known = call_imports.find_known(self._path, list(self._group)) | self._find_copies()
        read_at = {object_id: each.read_at for object_id, each in self._objects.items()}
        known_objects = find_known_objects(self._path, read_at)
        new = [line for entry_id, line in self._group.items() if entry_id not in known]
        objects = [each.line for id_, each in self._objects.items() if id_ not in known_objects]
        if new or objects:
            self._store.store(new + objects)
        self._result.new += len(new) + len(objects)
        self._result.new_objects += len(objects)
        self._result.already_there += len(known) + len(known_objects)
        self._objects.clear()
        self._group.clear()
        self._messages.clear()
        self._bytes = 0

    def _find_copies(self) -> set[str]:
        """Return the ids of entries in the group whose upstream message another stored entry has."""
        found = call_imports.find_messages(self._path, list(self._messages.values()))
        elsewhere = {
            message_id
            for message_id, entry_id in found
            if not self._own_prefix or not entry_id.startswith(self._own_prefix)
        }
        return {entry_id for entry_id, each in self._messages.items() if each in elsewhere}


def find_size(stream: BinaryIO) -> int:
    """Return the size of a file in bytes, 0 for a stream without a size."""
    with suppress(OSError, ValueError):
        return os.fstat(stream.fileno()).st_size
    return 0


class Progress:
    """A line on a terminal that shows the progress of an import. ``size`` is in bytes, 0 if unknown."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._is_shown = sys.stderr.isatty()
        self._read = 0
        self._next_s = 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)

    def show(self, size: int, calls: int) -> None:
        """Count ``size`` more bytes, and print the progress if some time has passed. ``calls``: imported so
        far."""
        self._read += size
        if not self._is_shown or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + PROGRESS_S
        share = f", {self._read / self._size:.0%}" if self._size else ""
        click.echo(f"\r\x1b[K{format_calls(calls)}{share}", nl=False, err=True)
