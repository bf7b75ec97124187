"""``python -m manage.healthcheck``: the health check of a container, which has no curl.

Its exit status is 0 while the proxy serves. It imports little, since it runs twice a minute.
"""

import json
import os
import sys
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException

from runtime.setting_values import parse_listen

TIMEOUT_S = 5.0


def find_fault(environ: Mapping[str, str]) -> str | None:
    """Return the reason why the proxy does not serve, or None if it does."""
    address = parse_listen(environ.get("TAXIMETER_LISTEN", "127.0.0.1:8080")).connectable
    connection = HTTPConnection(address.host, address.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/livez")
        response = connection.getresponse()
        body = response.read(1000)
    except (OSError, HTTPException) as error:
        return f"http://{address}/livez does not respond: {error}"
    finally:
        connection.close()
    if response.status != 200 or not _is_ours(body):
        return f"http://{address}/livez responds with {response.status}, and not as Taximeter does"
    return None


def _is_ours(body: bytes) -> bool:
    try:
        return bool(json.loads(body)["status"] == "ok")
    except (ValueError, LookupError, TypeError):
        return False


if __name__ == "__main__":
    if fault := find_fault(os.environ):
        sys.exit(fault)
