"""Reading the body of a request up to a limit."""

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request


async def read_body(request: Request, max_bytes: int, too_large: str, cut: str) -> bytes:
    """Return the body. Raises HTTPException with the message that is given, for one that is too large
    (413) or that did not come to its end (400)."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise HTTPException(413, too_large)
    except ClientDisconnect as error:  # nobody is left to read this
        raise HTTPException(400, cut) from error
    return bytes(body)
