"""``python -m dashboard.export.parquet_process COLUMNS``: a process that converts rows to Parquet.

COLUMNS is a JSON list of pairs of a name and a declared type. Each line of standard input is a row as a
JSON array; the file goes to standard output. It is a process of its own because pyarrow takes 80 MB, and
because it can be ended at once if the client disconnects.
"""

import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import orjson

from runtime import address_space

NICENESS = 5  # pages come first


def main(arguments: Sequence[str]) -> int:
    """Convert rows on standard input to a file on standard output, and return the exit status."""
    os.nice(NICENESS)
    # pyarrow reserves more address space than the web process may have, when it is loaded.
    address_space.lift()
    parquet = import_module("store.traces.calls.parquet")
    columns = [parquet.Column(name, declared) for name, declared in json.loads(arguments[0])]
    writer = parquet.ParquetWriter(sys.stdout.buffer, columns)
    try:
        for line in sys.stdin.buffer:
            writer.write(orjson.loads(line))
        writer.close()
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # its reader has gone
        return 1
    except (parquet.ConversionError, ValueError) as error:
        print(f"no Parquet: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
