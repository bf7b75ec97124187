"""The sources of ``datasette-metadata.json``: canned queries, descriptions of tables and columns.

- ``queries/<name>.sql`` is a canned query. Its first comment is its head.
- ``tables.toml`` describes tables and columns.

``python -m dashboard.tables.metadata`` generates the file; with ``--check`` it only compares. The
service and plain Datasette read the generated file only.
"""

from pathlib import Path

# In a checkout this is a link to the file at the top of the repository, in a wheel the file itself.
METADATA_PATH = Path(__file__).parents[1] / "datasette-metadata.json"
