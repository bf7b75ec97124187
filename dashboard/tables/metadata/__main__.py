"""The command that generates or checks ``datasette-metadata.json``."""

import click

from dashboard.tables.metadata import METADATA_PATH
from dashboard.tables.metadata.declarations import MetadataError
from dashboard.tables.metadata.generator import generate, is_stale


@click.command()
@click.option("--check", is_flag=True, help="Fail if the file is stale, and write nothing.")
def main(*, check: bool) -> None:
    """Generate datasette-metadata.json from the canned queries and tables.toml."""
    try:
        if not check:
            METADATA_PATH.write_text(generate())
        elif is_stale(METADATA_PATH):
            raise click.ClickException("datasette-metadata.json is stale: call ./run.sh generate")
    except MetadataError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main(prog_name="python -m dashboard.tables.metadata")
