"""Service API keys of ours are found that were sent to a proxy endpoint by mistake.

They open the management API, so they must not go to an upstream. Whether a value is one of ours is
asked of ``control.db`` only when it has the format of one; upstream credentials (``sk-ant-…``) never do.
"""

import re
from collections.abc import Iterator

from addon.headers import Fields
from store.api_keys import RAW_KEY

_CREDENTIAL_HEADERS = frozenset({b"authorization", b"x-api-key"})
_SERVICE_KEY = re.compile(rb"(?<![A-Za-z0-9_-])" + RAW_KEY.pattern.encode() + rb"(?![A-Za-z0-9_-])")


def find_service_keys(fields: Fields) -> Iterator[str]:
    """Yield what has the format of a service API key among the credentials of a request."""
    for name, value in fields:
        if name.lower() in _CREDENTIAL_HEADERS:
            yield from (match.decode() for match in _SERVICE_KEY.findall(value))
