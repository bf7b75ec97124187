"""Parsing of forms.

Every request with an unsafe method is read here, and so checked for its origin.
"""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from dashboard import form_origin
from dashboard.request_bodies import read_body

MAX_BYTES = 16_384
MAX_FIELDS = 20


async def read_form(request: Request, base_url: str) -> Mapping[str, str]:
    """Return the fields of a form; of a repeated field the first. Raises HTTPException."""
    if not form_origin.is_same_origin(request.headers, base_url):
        raise HTTPException(403, form_origin.REFUSAL)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in ("", "application/x-www-form-urlencoded"):
        raise HTTPException(415, "Forms must be sent as application/x-www-form-urlencoded.")
    body = await read_body(
        request,
        MAX_BYTES,
        too_large=f"A form has at most {MAX_BYTES} bytes.",
        cut="This form did not come to its end.",
    )
    try:
        fields = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except ValueError as error:
        raise HTTPException(400, "This form cannot be read.") from error
    return dict(reversed(fields))
