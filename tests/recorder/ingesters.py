"""The recorder's part that takes calls from the spool, for tests of what it does with them."""

from pathlib import Path
from typing import Any

from recorder.disk import DiskRoom
from recorder.ingest import Ingester
from store.price_file import load_prices


def make_ingester(data_dir: Path, **changes: Any) -> Ingester:
    """Return an ingester of this data directory, for which no time passes unless a clock is given."""
    prices = load_prices()
    values: dict[str, Any] = {
        "prices": lambda: prices,
        "disk": DiskRoom(data_dir, 0),
        "clock_s": lambda: 0.0,
        "on_entries": lambda _: None,
    }
    return Ingester(data_dir, data_dir / "spool", **(values | changes))
