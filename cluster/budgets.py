"""The budgets that are used up, told by the node with the pages to the proxies of all nodes.

    taximeter:budgets    the budget file of that node, whose recorder adds up what calls cost

Each proxy node writes the same file for its proxies. Budgets have their periods in it, so that a proxy stops
refusing at their end by itself, whoever is away.
"""

from cluster import server
from store.budget_file import BudgetFile

KEY = "taximeter:budgets"


class BudgetPublisher:
    """Publishes the file of the node with the pages."""

    def __init__(self, file: BudgetFile, client: server.Client) -> None:
        self._file, self._client = file, client

    def run_round(self) -> bool:
        """Publish the file if the server has another one; return whether it had. Raises redis.RedisError."""
        content = self._file.copy()
        if self._client.get(KEY) == content:
            return False
        self._client.set(KEY, content)
        return True


class BudgetFollower:
    """Writes the file of a proxy node."""

    def __init__(self, file: BudgetFile, client: server.Client) -> None:
        self._file, self._client = file, client

    def run_round(self) -> bool:
        """Write the file that the server has if it is another one; return whether it was.

        Raises redis.RedisError, OSError."""
        content: bytes | None = self._client.get(KEY)
        # A server that has lost it is told again by the node with the pages.
        if content is None or content == self._file.copy():
            return False
        self._file.paste(content)
        return True
