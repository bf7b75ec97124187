"""Documentation made from the code; ``./run.sh check`` compares it with what is written."""

import json
import re
from collections.abc import Iterable, Iterator

import click
from markdown_it import MarkdownIt
from markdown_it.token import Token

from dashboard.tables.metadata import METADATA_PATH
from dashboard.tables.metadata.descriptions import read_descriptions
from dashboard.tables.metadata.generator import FOLDER
from extensions.reconcile.causes import CAUSES
from manage.api.usage_operations import UsageTotals
from manage.cli.main import cli
from metering.token_counts import TOKEN_CLASSES
from runtime.settings import group_settings
from store.backup.contents import list_rules
from tests import ROOT

_TABLE = re.compile(r"(<h2>([^<]*)</h2>\n)(<table>.*?</table>\n)", re.DOTALL)
_FIRST_CELL = re.compile(r"(<tr>\n)<td>(.*?)</td>")


def walk_commands(
    command: click.Command = cli, path: tuple[str, ...] = ("taximeter",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with its full name."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from walk_commands(found, (*path, name))
    else:
        yield path, command


def render_commands() -> str:
    rows = [
        f"| `{' '.join(path)}` | {command.get_short_help_str(limit=200)} |"
        for path, command in walk_commands()
    ]
    return "\n".join(["", "| command | |", "| --- | --- |", *rows, "", ""])


def render_reference() -> str:
    """The help of every command, as a terminal of 96 columns shows it."""
    root = click.Context(cli, info_name="taximeter", terminal_width=96, **cli.context_settings)
    helps = [("taximeter", cli.get_help(root))]
    for path, command in walk_commands():
        context = root
        for name in path[1:]:
            assert isinstance(context.command, click.Group)
            found = context.command.get_command(context, name)
            assert found is not None
            context = click.Context(found, parent=context, info_name=name)
        helps.append((" ".join(path), command.get_help(context)))
    return "\n".join(["", *(f"## {title}\n\n```text\n{text}\n```\n" for title, text in helps), ""])


def render_settings() -> str:
    """The settings in groups: rows of one table, so that its columns are equally wide."""
    rows = []
    for title, settings in group_settings().items():
        rows.append(f"| **{title}** | | |")
        for each in settings:
            default = f"`{each.default}`" if each.default else "-"
            rows.append(f"| `{each.variable}` | {default} | {each.help.replace('<', '&lt;')} |")
    return "\n".join(["", "| variable | default | |", "| --- | --- | --- |", *rows, "", ""])


def render_headers(names: Iterable[bytes]) -> str:
    """Names of headers in a line, for cog."""
    return "\n" + ", ".join(f"`{name.decode()}`" for name in sorted(names)) + "\n\n"


def render_columns() -> str:
    """The columns of ``usage_log`` in their order, as the table reference describes them."""
    metadata = json.loads(METADATA_PATH.read_text())["databases"]["traces"]
    descriptions = read_descriptions(FOLDER)
    rows = [
        f"| `{column}` | {descriptions.describe_column('usage_log', column)} |"
        for column in metadata["tables"]["usage_log"]["columns"]
    ]
    return "\n".join(["", "| column | |", "| --- | --- |", *rows, "", ""])


def render_totals() -> str:
    """The fields of the totals in the management API."""
    about = {each.name: f"{each.title}." for each in TOKEN_CLASSES} | {
        name: field.description
        for name, field in UsageTotals.model_fields.items()
        if field.description
    }
    rows = [f"| `{name}` | {about.get(name, '')} |" for name in UsageTotals.model_fields]
    return "\n".join(["", "| field | |", "| --- | --- |", *rows, "", ""])


def render_page(name: str) -> str:
    """A page of ``docs/`` as HTML, for a page of the dashboard. Other pages of ``docs/`` are not served,
    so links to them become their words."""
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse((ROOT / "docs" / f"{name}.md").read_text())
    for token in tokens:
        token.children = _drop_links(token.children or [])
    html = str(parser.renderer.render(tokens, parser.options, {}))
    region = r'\1<div class="scroll" tabindex="0" role="region" aria-label="\2">\n\3</div>\n'
    html = _TABLE.sub(region, html).replace("<th>", '<th scope="col">')
    # On a phone the columns of a row stand below each other, under the first as their heading.
    html = html.replace("<table>", '<table class="prose-table">')
    return "\n" + _FIRST_CELL.sub(r'\1<th scope="row">\2</th>', html)


def _drop_links(tokens: list[Token]) -> list[Token]:
    assert not any(str(token.attrGet("href") or "").startswith("http") for token in tokens)
    return [token for token in tokens if token.type not in ("link_open", "link_close")]


def render_causes() -> str:
    """The causes and notes of a reconciliation, as a list."""
    lines = (f"- **{title}**: {explanation}" for title, explanation in CAUSES.values())
    return "\n" + "\n".join(lines) + "\n\n"


def render_backup_rules() -> str:
    """The files of a data directory, and what a backup does with them."""
    rows = [f"| `{each.pattern}` | {each.treatment} | {each.about} |" for each in list_rules()]
    return "\n".join(["", "| file | in a backup | |", "| --- | --- | --- |", *rows, "", ""])
