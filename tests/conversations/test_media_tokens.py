import base64
import struct

import orjson
import pytest

from conversations.media_tokens import estimate_document, estimate_image, find_size
from conversations.token_rules import read_token_rules

RULES = read_token_rules()
OLDER, NEWER = RULES.find("claude-haiku-4-5"), RULES.find("claude-opus-5-5-20261001")


def png(width, height):
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(9)


def jpeg(width, height):
    preview = b"\xff\xe0" + struct.pack(">H", 18) + bytes(16)
    return (
        b"\xff\xd8" + preview + b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width) + bytes(9)
    )


def webp(kind, head):
    return b"RIFF" + bytes(4) + b"WEBP" + kind + bytes(4) + head


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (png(640, 480), (640, 480)),
        (jpeg(640, 480), (640, 480)),
        (b"GIF89a" + struct.pack("<HH", 640, 480), (640, 480)),
        (webp(b"VP8 ", bytes(6) + struct.pack("<HH", 640, 480)), (640, 480)),
        (webp(b"VP8L", b"\x2f" + struct.pack("<I", 639 | 479 << 14)), (640, 480)),
        (
            webp(b"VP8X", bytes(4) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")),
            (640, 480),
        ),
        (png(640, 480)[:20], None),
        (jpeg(640, 480)[:24], None),
        (b"BM", None),
        (b"", None),
    ],
)
def test_the_size_of_an_image_stands_in_its_first_bytes(head, size):
    assert find_size(head) == size


@pytest.mark.parametrize(
    ("size", "older", "newer"),
    [
        ((28, 28), 1, 1),
        ((640, 480), 23 * 18, 23 * 18),
        ((4_000, 3_000), 1_568, 4_784),  # shrunk to the most that there is
        ((0, 9), RULES.image_unknown, RULES.image_unknown),
    ],
)
def test_an_image_takes_a_token_for_each_square_of_28_pixels(size, older, newer):
    data = base64.b64encode(png(*size)).decode()
    source = orjson.dumps({"type": "base64", "data": data})
    for rules, tokens in ((OLDER, older), (NEWER, newer)):
        assert estimate_image(source, rules, RULES) == pytest.approx(tokens, rel=0.03)


@pytest.mark.parametrize("source", [b"{}", b"[", b'{"data":"!!!"}', b'{"type":"url","url":"x"}'])
def test_an_image_of_unknown_size_has_the_usual_tokens(source):
    assert estimate_image(source, OLDER, RULES) == RULES.image_unknown


def test_a_document_is_counted_by_pages_or_by_its_text():
    pdf = b"%PDF-1.7 <</Type /Pages /Kids []>> <</Type /Page>> <</Type/Page /Parent 1 0 R>>"
    source = orjson.dumps({"type": "base64", "data": base64.b64encode(pdf).decode()})
    assert estimate_document(source, RULES) == 2 * RULES.page
    plain = orjson.dumps({"type": "text", "data": "word" * 1_000})
    assert estimate_document(plain, RULES) == pytest.approx(1_000, rel=0.02)
    packed = orjson.dumps({"type": "base64", "data": base64.b64encode(bytes(4_000)).decode()})
    assert 0 < estimate_document(packed, RULES) < 1_000
