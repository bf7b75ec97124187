"""Pictures of pages in few bytes: PNG with a palette.

A page has some flat colors, which stay exactly as they are, and many shades of them at the edges of its
letters, which become the nearest color of the palette. The file has a third of the bytes.
"""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

MAX_COLORS, EXACT_COLORS = 256, 64
APART = 12**2  # from each other, so that a color which is rare, as that of a mark, has a place too
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {2: 3, 6: 4}  # of the color types that browsers write: RGB, and with transparency
_PALETTE = 3

type Color = tuple[int, int, int]


def shrink(png: bytes) -> bytes:
    """Return the picture with a palette of the colors in it. What is transparent is lost.

    ``png`` has 8 bits a channel and is not interlaced."""
    chunks = list(_read_chunks(png))
    width, height, depth, color_type, *_, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    assert (depth, interlaced) == (8, 0), "not a picture that a browser makes"
    channels = _CHANNELS[color_type]
    packed = b"".join(data for kind, data in chunks if kind == b"IDAT")
    lines = list(_unfilter(zlib.decompress(packed), width * channels, channels))
    pixels = [list(zip(*(line[at::channels] for at in range(3)), strict=True)) for line in lines]
    counts = Counter(pixel for line in pixels for pixel in line)
    palette = _choose_palette(counts)
    places = {color: _find_nearest(color, palette)[1] for color in counts}
    filtered = b"".join(b"\0" + bytes(map(places.__getitem__, line)) for line in pixels)
    return _SIGNATURE + b"".join(
        (
            _make_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, _PALETTE, 0, 0, 0)),
            _make_chunk(b"PLTE", b"".join(map(bytes, palette))),
            _make_chunk(b"IDAT", zlib.compress(filtered, 9)),
            _make_chunk(b"IEND", b""),
        )
    )


def _choose_palette(counts: Counter[Color]) -> list[Color]:
    colors = [color for color, _ in counts.most_common()]
    if len(colors) <= MAX_COLORS:
        return colors
    palette = colors[:EXACT_COLORS]
    for color in colors[EXACT_COLORS:]:
        if len(palette) < MAX_COLORS and _find_nearest(color, palette)[0] > APART:
            palette.append(color)
    return palette


def _find_nearest(color: Color, palette: list[Color]) -> tuple[int, int]:
    """Return the square of the distance to the nearest color, and its place."""
    red, green, blue = color
    return min(
        ((r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2, place)
        for place, (r, g, b) in enumerate(palette)
    )


def _read_chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        yield kind, png[at + 8 : at + 8 + length]
        at += length + 12


def _make_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _unfilter(data: bytes, stride: int, step: int) -> Iterator[bytearray]:
    """Yield the lines of pixels, undoing what each line says was done to it."""
    before = bytearray(stride)
    for at in range(0, len(data), stride + 1):
        line = bytearray(data[at + 1 : at + 1 + stride])
        predict = _PREDICTORS[data[at]]
        for place in range(stride):
            left = line[place - step] if place >= step else 0
            above_left = before[place - step] if place >= step else 0
            line[place] = (line[place] + predict(left, before[place], above_left)) & 0xFF
        yield line
        before = line


def _paeth(left: int, above: int, above_left: int) -> int:
    guess = left + above - above_left
    return min((left, above, above_left), key=lambda each: abs(guess - each))


_PREDICTORS = (
    lambda _left, _above, _above_left: 0,
    lambda left, _above, _above_left: left,
    lambda _left, above, _above_left: above,
    lambda left, above, _above_left: (left + above) // 2,
    _paeth,
)
