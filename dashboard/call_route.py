"""The routes of pages that read recorded calls."""

from starlette.routing import Route


class CallRoute(Route):
    """The route of a page that reads recorded calls, and changes nothing.

    Where another machine of the service keeps the calls of who asks, that one responds: a page without this
    finds none there."""

    def reads_calls(self, method: str, path: str) -> bool:
        """Return whether a request reads calls. ``path`` is as it was sent."""
        return method in ("GET", "HEAD")
