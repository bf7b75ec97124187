"""A process that makes Parquet of rows: ``python -m dashboard.export.parquet_process COLUMNS``.

COLUMNS is JSON, a name and a declared type for each. Rows come on standard input, each a line with a JSON
array; the file goes to standard output. It is a process of its own because pyarrow takes 80 MB, and so that
a download whose client left can be ended at once.
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
    """Convert standard input to standard output. Returns the exit status."""
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
