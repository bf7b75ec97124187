"""The pictures of the documents are those that one command makes."""

import random
import re
import struct
import zlib

from tests import ROOT
from tests.browser.pictures import FOLDER, IN_FLIGHT, PICTURES, take_pictures
from tests.browser.png import shrink

MADE = {IN_FLIGHT, *PICTURES}


def test_every_picture_of_the_documents_is_made_by_the_command_and_none_is_left_over():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {
        name
        for page in pages
        for name in re.findall(r"\]\((?:docs/)?screenshots/(\S+)\.png\)", page.read_text())
    }
    assert shown == MADE
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.png" for name in MADE}


def test_a_picture_is_taken_of_the_demo(driver, tmp_path):
    take_pictures(driver, tmp_path, ["compare"], pace=0)
    [path] = tmp_path.iterdir()
    assert path.name == "compare.png"
    _, width, height, _ = read_palette_picture(path.read_bytes())
    assert (width, height > 800) == (1280, True)


def test_few_colors_stay_as_they_are_whatever_their_lines_were_filtered_by():
    chosen = random.Random(1)  # noqa: S311 - the same each time
    colors = [bytes(chosen.randrange(256) for _ in range(3)) for _ in range(200)]
    lines = [[chosen.choice(colors) for _ in range(9)] for _ in range(25)]
    palette, width, height, places = read_palette_picture(shrink(make_picture(lines)))
    assert (width, height) == (9, 25)
    assert [[palette[place] for place in line] for line in places] == lines


def test_of_many_colors_those_that_are_like_another_become_that():
    flat = [[bytes((level, 0, 0))] * 9 for level in range(0, 256, 4)]
    shades = [
        [bytes((level, 1 + place % 3, 0)) for place in range(9)] for level in range(0, 256, 4)
    ]
    rare = [bytes((100, 2, 1)), bytes((0, 200, 0)), *[bytes((100, 0, 0))] * 7]
    palette, _, _, places = read_palette_picture(shrink(make_picture([*flat, *shades, rare])))
    assert [[palette[place] for place in line] for line in places[: len(flat)]] == flat
    assert [palette[place] for place in places[-1][:2]] == [bytes((100, 0, 0)), bytes((0, 200, 0))]


def make_picture(lines):
    """Return lines of colors as a PNG whose lines have each of the filters in turn."""
    stride = 3 * len(lines[0])
    before, filtered = bytes(stride), b""
    for number, colors in enumerate(lines):
        line, kind = b"".join(colors), number % 5
        filtered += bytes([kind])
        for at in range(stride):
            left, corner = (line[at - 3], before[at - 3]) if at >= 3 else (0, 0)
            above = before[at]
            paeth = min(
                (left, above, corner), key=lambda each: abs(left + above - corner - each)
            )  # fmt: skip
            guess = (0, left, above, (left + above) // 2, paeth)[kind]
            filtered += bytes([(line[at] - guess) & 0xFF])
        before = line
    head = struct.pack(">IIBBBBB", len(lines[0]), len(lines), 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(filtered)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def read_palette_picture(png):
    """Return the palette, width and height of a PNG, and the place in the palette of each pixel."""
    found, at = {}, 8
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        found[kind] = png[at + 8 : at + 8 + length]
        at += length + 12
    width, height = struct.unpack_from(">II", found[b"IHDR"])
    colors = found[b"PLTE"]
    palette = [colors[at : at + 3] for at in range(0, len(colors), 3)]
    pixels = zlib.decompress(found[b"IDAT"])
    lines = [pixels[at + 1 : at + 1 + width] for at in range(0, len(pixels), width + 1)]
    return palette, width, height, lines
