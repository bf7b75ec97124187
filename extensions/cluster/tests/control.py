"""A node with calls, brought to what the node with people knows."""

from extensions.cluster.shared_rows import read_rows, write_rows
from extensions.cluster.statements import PAGE_CHECKING_KEY
from store.control.database import ControlDatabase


def bring_over(home: ControlDatabase, other: ControlDatabase) -> None:
    """Do as the directory and the exchange of keys do."""
    with other.transaction() as written, home.reading() as db:
        write_rows(written, read_rows(written), read_rows(db))
    key = home.find_secret(PAGE_CHECKING_KEY)
    if key is not None:
        other.put_secret(PAGE_CHECKING_KEY, key)
