"""The check that a form was submitted from a page of this service."""

from collections.abc import Mapping
from urllib.parse import urlsplit

REFUSAL = "This request came from another site and was refused. Submit the form on this page again."


def is_same_origin(headers: Mapping[str, str], base_url: str) -> bool:
    """Return whether the headers name this service as the origin. Browsers send ``Sec-Fetch-Site``
    or at least ``Origin`` with every POST; a page elsewhere can forge neither. The origin is
    compared with the base URL and with the host of the request."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return False
    ours = {base_url, f"{urlsplit(base_url).scheme}://{headers.get('host', '')}"}
    return origin in ours
