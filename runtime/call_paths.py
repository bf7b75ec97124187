"""The addresses of requests that read calls.

Where other nodes keep the calls, they are for these: the pages forward them, and commands send them there.
"""

import re

_PAGES = re.compile(
    r"/|/(?:overview|live|savings|search|secrets|sessions|traces)(?:[/.].*)?",
    re.DOTALL,
)
_READ_BY_API = re.compile(
    r"/api/(?:calls|recorded-usage|usage|search|runs/[^/]*|budgets?|retention|proxy-endpoints/[^/]*/budget)"
)
_TICKET = re.compile(r"/traces/usage/[0-9]+/replay/ticket")  # for the proxies that this node knows
_ERASURES = "/api/erasures"  # a POST, which counts calls if it is a dry run
_CHECK = re.compile(r"/traces/usage/[0-9]+/replay/check")  # a POST that changes nothing


METRICS = "/metrics"


def is_of_calls(method: str, path: str, *, is_dry_run: bool = False) -> bool:
    """Return whether a request reads what the recorder has stored, and changes nothing.

    ``is_dry_run``: its body says that nothing is to be changed."""
    if method == "POST":
        return (is_dry_run and path == _ERASURES) or _CHECK.fullmatch(path) is not None
    if method not in ("GET", "HEAD") or _TICKET.fullmatch(path):
        return False
    return (
        path == METRICS
        or _PAGES.fullmatch(path) is not None
        or _READ_BY_API.fullmatch(path) is not None
    )
