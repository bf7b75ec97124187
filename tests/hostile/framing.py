"""Requests whose framing, target or head two servers could read in two ways, as bytes.

A smuggled request is one that only one of two servers sees. So each case says which bodies may arrive at
the upstream, and ends, where that makes sense, with the bytes of another request: whoever takes these for
part of something else sees the body ``SMUGGLED`` where it may not arrive, or not where it must.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.live.service import API_KEY

TARGET = b"/proxy/SLUG/v1/messages"
SLUG = b"SLUG"
FIELDS = (
    b"Host: taximeter.test\r\nContent-Type: application/json\r\nx-api-key: %b\r\n"
    % API_KEY.encode()
)
LINE = b"POST " + TARGET + b" HTTP/1.1\r\n"
SMUGGLED = b'{"smuggled":true}'
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@dataclass(frozen=True, slots=True)
class Framing:
    """One case: what a client sends. ``may_arrive`` are the bodies that the upstream may see, in order:
    all of them, some of the first, or none. It must see none where there is none, and the client then
    gets a response that says why, unless it ``stalls``: then it has not sent all that it announced."""

    name: str
    data: bytes
    may_arrive: tuple[bytes, ...] = ()
    stalls: bool = False

    def data_for(self, slug: str) -> bytes:
        """Return the bytes to send to a proxy endpoint."""
        return self.data.replace(SLUG, slug.encode())


def message(body: bytes, *more: bytes, line: bytes = LINE) -> bytes:
    """Return a request with a content-length, and these header lines before it."""
    fields = FIELDS + b"".join(more)
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (line, fields, len(body), body)


def raw(fields: bytes, body: bytes = b"", line: bytes = LINE) -> bytes:
    """Return a request with these header lines and no framing of ours."""
    return line + FIELDS + fields + b"\r\n" + body


NEXT = message(SMUGGLED)
HELLO = b"5\r\nhello\r\n0\r\n\r\n"

LENGTHS = {
    "two different lengths": b"Content-Length: 3\r\nContent-Length: 5\r\n",
    "a list of different lengths": b"Content-Length: 3, 5\r\n",
    "a length with a plus": b"Content-Length: +5\r\n",
    "a negative length": b"Content-Length: -5\r\n",
    "a hexadecimal length": b"Content-Length: 0x5\r\n",
    "a length with a blank inside": b"Content-Length: 5 5\r\n",
    "a length with an exponent": b"Content-Length: 5e0\r\n",
    "a length with an underscore": b"Content-Length: 0_5\r\n",
    "a length with a fraction": b"Content-Length: 5.0\r\n",
    "an empty length": b"Content-Length: \r\n",
    "a length that no number type holds": b"Content-Length: 18446744073709551621\r\n",
    "a length in other digits": b"Content-Length: \xd9\xa5\r\n",
    "a length after a vertical tab": b"Content-Length: \x0b5\r\n",
    "a length with a semicolon": b"Content-Length: 5;\r\n",
    "a length after a blank in its name": b"Content-Length : 5\r\n",
    "a length after a tab in its name": b"Content-Length\t: 5\r\n",
    "a length in a folded line": b"X-App: a\r\n Content-Length: 5\r\n",
    "a length in a line folded by a tab": b"X-App: a\r\n\tContent-Length: 5\r\n",
    "a length behind a bare CR": b"X-App: a\rContent-Length: 5\r\n",
    "a length behind a NUL": b"X-App: a\x00Content-Length: 5\r\n",
    "a length behind CR CR LF": b"X-App: a\r\r\nContent-Length: 5\r\n",
    "a NUL in the name of a length": b"Content-Length\x00: 5\r\n",
    "a header line without a colon": b"Content-Length 5\r\n",
    "a header line without a name": b": 5\r\nContent-Length: 5\r\n",
}
CODINGS = {
    "both lengths and chunks": b"Content-Length: 3\r\n" + CHUNKED,
    "both chunks and lengths": CHUNKED + b"Content-Length: 3\r\n",
    "an unknown transfer coding": b"Transfer-Encoding: xchunked\r\n",
    "chunks that are not the last coding": b"Transfer-Encoding: chunked, identity\r\n",
    "chunks twice": b"Transfer-Encoding: chunked, chunked\r\n",
    "chunks in two headers": CHUNKED + CHUNKED,
    "two transfer codings in two headers": CHUNKED + b"Transfer-Encoding: identity\r\n",
    "identity": b"Transfer-Encoding: identity\r\n",
    "chunks with a parameter": b"Transfer-Encoding: chunked;q=1\r\n",
    "chunks in quotes": b"Transfer-Encoding: 'chunked'\r\n",
    "chunks after a vertical tab": b"Transfer-Encoding: \x0bchunked\r\n",
    "chunks before a form feed": b"Transfer-Encoding: chunked\x0c\r\n",
    "chunks before a bare CR": b"Transfer-Encoding: chunked\r\r\n",
    "chunks before a NUL": b"Transfer-Encoding: chunked\x00\r\n",
    "chunks after a blank in the name": b"Transfer-Encoding : chunked\r\n",
    "chunks in a folded line": b"Transfer-Encoding:\r\n chunked\r\n",
    "chunks in a header of a line before": b"X-App: a\r\n Transfer-Encoding: chunked\r\n",
    "an empty transfer coding": b"Transfer-Encoding: \r\n",
    "chunks and nothing else in a list": b"Transfer-Encoding: , chunked\r\n",
}
BAD_CHUNKS = {
    "a chunk longer than it says": b"3\r\nhello\r\n0\r\n\r\n",
    "a chunk shorter than it says": b"7\r\nhello\r\n0\r\n\r\n",
    "a chunk without its line end": b"5\r\nhello0\r\n\r\n",
    "a chunk that ends with a bare LF": b"5\r\nhello\n0\r\n\r\n",
    "a size that ends with a bare LF": b"5\nhello\r\n0\r\n\r\n",
    "a size that ends with a bare CR": b"5\rhello\r\n0\r\n\r\n",
    "a hexadecimal prefix of a size": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a size with a plus": b"+5\r\nhello\r\n0\r\n\r\n",
    "a negative size": b"-5\r\nhello\r\n0\r\n\r\n",
    "a size with an underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
    "a blank before a size": b" 5\r\nhello\r\n0\r\n\r\n",
    "a size that wraps around": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "an empty size": b"\r\nhello\r\n0\r\n\r\n",
    "an extension with a bare LF": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "an extension with a bare CR": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "an extension with a NUL": b"5;a\x00b\r\nhello\r\n0\r\n\r\n",
    "a size with a list": b"5,5\r\nhello\r\n0\r\n\r\n",
    "a trailer without a colon": b"5\r\nhello\r\n0\r\nno trailer\r\n\r\n",
    "a trailer with a NUL": b"5\r\nhello\r\n0\r\nx: \x00\r\n\r\n",
    "a folded trailer": b"5\r\nhello\r\n0\r\nx: a\r\n b\r\n\r\n",
    "a large trailer": b"5\r\nhello\r\n0\r\nx: %b\r\n\r\n" % (b"a" * 20_000),
}
GOOD_CHUNKS = {
    "extensions": b'5;a=1;b="c"\r\nhello\r\n0;d\r\n\r\n',
    "zeros before a size": b"00005\r\nhello\r\n000\r\n\r\n",
    "a trailer that looks like framing": b"5\r\nhello\r\n0\r\nContent-Length: 3\r\n\r\n",
    "a trailer that looks like a credential": b"5\r\nhello\r\n0\r\nx-api-key: other\r\n\r\n",
}
TARGETS = {
    "dot segments": b"/proxy/SLUG/v1/../v1/messages",
    "a dot segment": b"/proxy/SLUG/v1/./messages",
    "dot segments before the version": b"/proxy/SLUG/../v1/messages",
    "dot segments at the end": b"/proxy/SLUG/v1/messages/..",
    "encoded dot segments": b"/proxy/SLUG/v1/%2e%2e/v1/messages",
    "half encoded dot segments": b"/proxy/SLUG/v1/%2E./messages",
    "an encoded slash": b"/proxy/SLUG/v1%2Fmessages",
    "an encoded slash after the version": b"/proxy/SLUG/v1/%2fmessages",
    "an encoded slash at the end": b"/proxy/SLUG/v1/messages%2f",
    "an encoded slash in the slug": b"/proxy/SLUG%2fv1/messages",
    "a backslash": b"/proxy/SLUG/v1/\\messages",
    "an encoded backslash": b"/proxy/SLUG/v1/%5cmessages",
    "an encoded NUL": b"/proxy/SLUG/v1/messages%00",
    "an encoded line end": b"/proxy/SLUG/v1/messages%0d%0aX:",
    "a percent sign alone": b"/proxy/SLUG/v1/messages%",
    "a fragment": b"/proxy/SLUG/v1/messages#frag",
    "a fragment in the query": b"/proxy/SLUG/v1/messages?a=1#frag",
    "a slash at the end": b"/proxy/SLUG/v1/messages/",
    "a doubled slash": b"/proxy/SLUG/v1//messages",
    "a doubled slash after messages": b"/proxy/SLUG/v1/messages//count_tokens",
    "three slashes": b"/proxy/SLUG///v1/messages",
    "another version": b"/proxy/SLUG/v2/messages",
    "no version": b"/proxy/SLUG/messages",
    "a version alone": b"/proxy/SLUG/v1",
    "a version and a slash": b"/proxy/SLUG/v1/",
    "an endpoint alone": b"/proxy/SLUG",
    "a tab in the query": b"/proxy/SLUG/v1/messages?a\tb",
    "a control character in the target": b"/proxy/SLUG/v1/messages?\x01",
    "a NUL in the target": b"/proxy/SLUG/v1/messages?\x00",
    "high bytes in the path": b"/proxy/SLUG/v1/\xc0\xae\xc0\xae/messages",
    "a name and an @": b"@elsewhere/proxy/SLUG/v1/messages",
    "a host and no scheme": b"elsewhere/proxy/SLUG/v1/messages",
    "another scheme": b"ftp://elsewhere/proxy/SLUG/v1/messages",
    "an asterisk": b"*",
    "an encoded letter": b"/proxy/SLUG/v1/%6dessages",
    "an encoded letter in a run": b"/proxy/SLUG/run/1/v1/message%73",
    "a letter encoded twice": b"/proxy/SLUG/v1/%256dessages",
    "a letter encoded too long": b"/proxy/SLUG/v1/%C1%ADessages",
    "a capital letter": b"/proxy/SLUG/v1/Messages",
    "a long s": b"/proxy/SLUG/v1/me%C5%BFsages",
    "a wide letter": b"/proxy/SLUG/v1/%EF%BD%8Dessages",
    "parameters": b"/proxy/SLUG/v1/messages;a=b",
    "encoded parameters": b"/proxy/SLUG/v1/messages%3Ba=b",
    "a segment of parameters": b"/proxy/SLUG/v1/;a=b/messages",
    "dot segments with parameters": b"/proxy/SLUG/v1/files/..;a=b/messages",
    "a blank at the end": b"/proxy/SLUG/v1/messages%20",
    "a plus at the end": b"/proxy/SLUG/v1/messages+",
    "a dot at the end": b"/proxy/SLUG/v1/messages.",
    "a file type": b"/proxy/SLUG/v1/messages.json",
    "an encoded question mark": b"/proxy/SLUG/v1/messages%3Fbeta=true",
    "an encoded letter of batches": b"/proxy/SLUG/v1/messages/batche%73",
    "a long path": b"/proxy/SLUG/v1/" + b"a" * 20_000,
}
GOOD_TARGETS = {
    "the absolute form": b"http://elsewhere.test/proxy/SLUG/v1/messages",
    "the absolute form with another slug in its host": b"http://x/proxy/SLUG/v1/messages?http://y/",
    "slashes and dots in the query": b"/proxy/SLUG/v1/messages?x=/../y//z",
    "encoded line ends in the query": b"/proxy/SLUG/v1/messages?a=%0d%0aContent-Length:%200",
    "a doubled slash before the version": b"/proxy/SLUG//v1/messages",
}
FIRST_LINES = {
    "two blanks in the first line": b"POST  " + TARGET + b" HTTP/1.1\r\n",
    "a tab in the first line": b"POST\t" + TARGET + b"\tHTTP/1.1\r\n",
    "a word after the version": b"POST " + TARGET + b" HTTP/1.1 x\r\n",
    "no version": b"POST " + TARGET + b"\r\n",
    "HTTP/2.0": b"POST " + TARGET + b" HTTP/2.0\r\n",
    "HTTP/0.9": b"POST " + TARGET + b" HTTP/0.9\r\n",
    "a version in small letters": b"POST " + TARGET + b" http/1.1\r\n",
    "a method with a NUL": b"PO\x00ST " + TARGET + b" HTTP/1.1\r\n",
    "a method with a colon": b"POST: " + TARGET + b" HTTP/1.1\r\n",
    "a blank before the method": b" POST " + TARGET + b" HTTP/1.1\r\n",
    "CONNECT": b"CONNECT elsewhere:443 HTTP/1.1\r\n",
    "TRACE": b"TRACE " + TARGET + b" HTTP/1.1\r\n",
    "OPTIONS of everything": b"OPTIONS * HTTP/1.1\r\n",
    "a method in small letters": b"post " + TARGET + b" HTTP/1.1\r\n",
}
HEADS = {
    "a large header": b"X-App: %b\r\n" % (b"a" * 100_000),
    "many headers": b"a:\r\n" * 201,
    "an upgrade to websocket": b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    "an upgrade to HTTP/2": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAA\r\n",
    "two hosts": b"Host: elsewhere.test\r\n",
    "a name with a blank": b"X App: a\r\n",
    "a name with high bytes": b"X-\xe4: a\r\n",
    "a value with a NUL": b"X-App: a\x00b\r\n",
    "a value with a bare CR": b"X-App: a\rCookie: b\r\n",
    "a folded value": b"X-App: a\r\n Cookie: b\r\n",
    "an escape character in a value": b"X-App: \x1b[2J\r\n",
}
GOOD_HEADS = {
    "framing named in Connection": b"Connection: content-length, transfer-encoding\r\n",
    "a credential named in Connection": b"Connection: x-api-key\r\n",
    "names with underscores": b"Content_Length: 3\r\nTransfer_Encoding: chunked\r\n",
    "the mark of the front door": b"x-taximeter-client: token 1.2.3.4\r\n",
    "an expectation nobody knows": b"Expect: 200-ok\r\n",
    "headers of proxies": b"X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nVia: 1.1 x\r\n",
    "an original method": b"X-HTTP-Method-Override: DELETE\r\n",
    "another address for the request": b"X-Original-URL: /admin\r\nX-Rewrite-URL: /admin\r\n",
}
NOT_HTTP = {
    "a TLS greeting": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "the greeting of SSH": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "a header of the PROXY protocol": b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + message(b"hello"),
    "a binary header of the PROXY protocol": b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"
    + bytes(12)
    + b"\r\n\r\n",
    "a response": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "zeros": bytes(2000) + b"\r\n\r\n",
    "a line without an end": b"a" * 100_000,
}
STALLS = {
    "half a head": LINE + FIELDS,
    "half a body": raw(b"Content-Length: 100\r\n", b"hello"),
    "half a chunk": raw(CHUNKED, b"64\r\nhello"),
    "no last chunk": raw(CHUNKED, b"5\r\nhello\r\n"),
    "no end of the trailers": raw(CHUNKED, b"5\r\nhello\r\n0\r\nx: a\r\n"),
    "a head after an empty line": b"\r\n" + LINE,
}


def _make_cases() -> Iterator[Framing]:
    framed = ((LENGTHS, b"hello"), (CODINGS, HELLO))
    for named, body in framed:
        for name, fields in named.items():
            yield Framing(name, raw(fields, body) + NEXT)
    for name, body in BAD_CHUNKS.items():
        yield Framing(name, raw(CHUNKED, body) + NEXT)
    for name, body in GOOD_CHUNKS.items():
        yield Framing(f"chunks with {name}", raw(CHUNKED, body) + NEXT, (b"hello", SMUGGLED))
    yield from _make_heads()
    yield from _make_other_cases()


def _make_heads() -> Iterator[Framing]:
    for named, may_arrive in ((TARGETS, ()), (GOOD_TARGETS, (b"{}",))):
        for name, target in named.items():
            line = b"POST %b HTTP/1.1\r\n" % target
            yield Framing(f"target: {name}", message(b"{}", line=line), may_arrive)
    for name, line in FIRST_LINES.items():
        yield Framing(f"first line: {name}", message(b"{}", line=line))
    for name, fields in HEADS.items():
        yield Framing(f"head: {name}", message(b"{}", fields))
    for name, fields in GOOD_HEADS.items():
        yield Framing(f"head: {name}", message(b"hello", fields) + NEXT, (b"hello", SMUGGLED))
    for name, data in NOT_HTTP.items():
        yield Framing(f"not HTTP: {name}", data)
    for name, data in STALLS.items():
        yield Framing(f"not whole: {name}", data, stalls=True)


def _make_other_cases() -> Iterator[Framing]:
    both = (b"hello", SMUGGLED)
    yield Framing("the same length twice", raw(b"Content-Length: 5\r\n" * 2, b"hello") + NEXT, both)
    yield Framing(
        "a list of equal lengths", raw(b"Content-Length: 5, 5\r\n", b"hello") + NEXT, both
    )
    yield Framing(
        "a length with zeros before it", raw(b"Content-Length: 005\r\n", b"hello") + NEXT, both
    )
    yield Framing("chunks in capitals", raw(b"TRANSFER-ENCODING: CHUNKED\r\n", HELLO) + NEXT, both)
    yield Framing("chunks after a tab", raw(b"Transfer-Encoding:\tchunked\r\n", HELLO) + NEXT, both)
    yield Framing("a length after tabs", raw(b"Content-Length:\t5\t\r\n", b"hello") + NEXT, both)
    yield Framing(
        "three requests at once", message(b"1") + message(b"2") + NEXT, (b"1", b"2", SMUGGLED)
    )
    yield Framing(
        "a request after one that ends the connection",
        message(b"1", b"Connection: close\r\n") + NEXT,
        (b"1",),
    )
    yield Framing(
        "a body longer than its length", raw(b"Content-Length: 3\r\n", b"hello") + NEXT, (b"hel",)
    )
    yield Framing("no length and a body", raw(b"", SMUGGLED) + NEXT, (b"",))
    yield Framing(
        "a body sent before it was asked for",
        message(b"hello", b"Expect: 100-continue\r\n") + NEXT,
        both,
    )
    yield Framing("empty lines before a request", b"\r\n\r\n" + message(b"1"), (b"1",))
    yield Framing("bare LF as line ends", message(b"hello").replace(b"\r\n", b"\n") + NEXT, both)
    yield Framing("bare CR as line ends", message(b"hello").replace(b"\r\n", b"\r") + b"\r\n\r\n")
    yield Framing(
        "an HTTP/1.0 request in chunks",
        raw(CHUNKED, HELLO, LINE.replace(b"1.1", b"1.0")) + NEXT,
        (b"hello",),
    )
    yield Framing(
        "an HTTP/1.0 request and another",
        message(b"1", line=LINE.replace(b"1.1", b"1.0")) + NEXT,
        (b"1",),
    )
    yield Framing(
        "HTTP/1.2", message(b"1", line=LINE.replace(b"1.1", b"1.2")) + NEXT, (b"1", SMUGGLED)
    )
    yield Framing("no host", message(b"1").replace(b"Host: taximeter.test\r\n", b""), (b"1",))
    for host in (
        b"localhost:80/..",
        b"x@localhost",
        b"localhost?",
        b"a b",
        b"a, b",
        b"[::1",
        b"x\x00y",
    ):
        yield Framing(f"host: {host!r}", message(b"1").replace(b"taximeter.test", host))


CASES = tuple(_make_cases())
