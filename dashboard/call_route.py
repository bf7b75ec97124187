"""The routes of pages that read recorded calls."""

from starlette.routing import Route


class CallRoute(Route):
    """The route of a page that reads recorded calls and changes nothing.

    If another machine of the service stores the calls of the visitor's organisation, requests are passed
    on to that machine. On a page with another class of route, those calls would be missing."""

    def reads_calls(self, method: str, path: str) -> bool:
        """Return whether a request reads calls. ``path`` is percent-encoded."""
        return method in ("GET", "HEAD")
