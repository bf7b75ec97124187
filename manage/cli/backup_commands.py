"""``taximeter backup|restore``: copies of the whole data directory, for the operator."""

from dataclasses import asdict
from pathlib import Path

import click

from manage.cli.console import check_there_is_data, print_json
from manage.cli.operator_command import DataDirectory, operator_command
from manage.cli.program import name_commands
from manage.data_dir import prepare_data_dir
from metering.formats import format_bytes, format_calls, format_number
from runtime.safe_text import terminal_line
from store.backup.backup import Report, make_backup
from store.backup.restore import restore_backup
from store.copies import find_copies

_BEHIND = (
    "This node has not received all that other copies have: another node that is restored"
    " from this backup may lack calls. Make it again when /healthz shows no lag."
)


@click.command()
@click.argument("destination", metavar="DEST", type=click.Path(path_type=Path))
@operator_command
def backup(place: DataDirectory, destination: Path) -> None:
    """Copy the data directory, also while the service runs.

    DEST is a folder that does not exist yet, or one with an earlier backup. An earlier backup is brought
    up to date: databases that were not written since are not copied again. It stays complete until the new
    backup is complete. A backup has the text of calls; keep it as private as the data. Of a
    service on several machines it has the data of this machine alone: run it on the node with the role
    web, and on each node of one copy. Exit status 1 if something could not be copied.

    \b
    Examples:
      taximeter backup /mnt/backup/taximeter
      taximeter backup /mnt/backup/taximeter --json | jq .problems
    """
    check_there_is_data(place.settings)
    copies = find_copies(place.settings.data_dir)
    if copies is not None and not copies.wait_until_whole():
        click.echo(_BEHIND, err=True)
    report = make_backup(place.settings.data_dir, destination)
    if place.as_json:
        print_json({"ok": report.is_complete, "path": str(destination.absolute())} | asdict(report))
    else:
        _print_report(report, destination)
    if not report.is_complete:
        raise SystemExit(1)


def _print_report(report: Report, destination: Path) -> None:
    for folder, message in report.problems.items():
        click.echo(
            terminal_line(
                f"{folder} could not be copied, and stays as in the earlier backup, if that has it:"
                f" {message}"
            ),
            err=True,
        )
    for organization in report.erased:
        message = f"calls of {organization} were erased meanwhile, and may be in it: make it again"
        click.echo(terminal_line(message), err=True)
    for name in report.unknown:
        click.echo(terminal_line(f"{name} is no file of Taximeter, and was not copied"), err=True)
    waiting = f", {format_calls(report.waiting)} not recorded yet" if report.waiting else ""
    click.echo(
        f"Backed up to {terminal_line(str(destination))}: {format_number(report.copied, 'database')} copied"
        f" ({format_bytes(report.bytes_copied)}), {report.unchanged} unchanged{waiting}."
    )


@click.command()
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path))
@operator_command
def restore(place: DataDirectory, source: Path) -> None:
    """Restore a backup into an empty data directory.

    SRC is the folder of the backup. Every file is compared with the checksum of its making, and every
    database is checked. The directory must be empty or not there yet. Backups of older versions are
    brought up to date when the service starts; those of newer ones are refused.

    \b
    Examples:
      taximeter restore /mnt/backup/taximeter --data-dir /srv/taximeter
      taximeter up --data-dir /srv/taximeter
    """
    folder = place.settings.data_dir
    if warning := prepare_data_dir(folder):
        click.echo(f"taximeter: {terminal_line(warning)}", err=True)
    restored = restore_backup(source, folder)
    waiting = (
        f" It records {format_calls(restored.waiting)} that waited." if restored.waiting else ""
    )
    place.print(
        {"ok": True, "path": str(folder.absolute())} | asdict(restored),
        f"Restored the backup of {restored.as_of} into {terminal_line(str(folder.absolute()))}"
        f" ({format_number(restored.databases, 'database')}, {format_bytes(restored.bytes)})."
        f" {name_commands('`taximeter up`')} starts the service on it.{waiting}",
    )
