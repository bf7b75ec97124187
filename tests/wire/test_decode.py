import functools
import gzip
import io
import tracemalloc
import zlib

import brotli  # type: ignore[import-untyped]  # ships no types
import pytest
import zstandard
from hypothesis import given, strategies as st

from wire import decode
from wire.decode import (
    ALWAYS_DECODED_BYTES,
    decode_body,
)
from wire.json_reading import parse_object

TEXT = b'{"type":"message","usage":{"input_tokens":12,"output_tokens":34}}' * 40
NOISE = bytes(zlib.crc32(bytes([i % 256, i // 256])) % 256 for i in range(6000))


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


ENCODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd,
}


@pytest.mark.parametrize("data", [TEXT, NOISE, b"", b"x"], ids=["text", "noise", "empty", "one"])
@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_whole_body_is_decoded(encoding, data):
    decoded = decode_body(ENCODERS[encoding](data), encoding)
    assert (decoded.body, decoded.text, decoded.problem) == (data, data, None)


ONE_SHOT = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "br": brotli.decompress,
    "zstd": lambda wire: zstandard.ZstdDecompressor().decompressobj().decompress(wire),
}
# Around every size at which a decoder or its reader begins another block.
BORDERS = [0, 1, 1023, 1024, 65_535, 65_536, 131_072, 1_032_143, 1_048_576, 2_064_288]
SIZES = sorted(
    {abs(border + offset) for border in BORDERS for offset in (-1, 0, 1)} | {117, 3_000_117}
)


def encode_fast(data: bytes, encoding: str) -> bytes:
    """Large bodies: at its best, which is its default, brotli takes seconds for one."""
    wire: bytes = brotli.compress(data, quality=5) if encoding == "br" else ENCODERS[encoding](data)
    return wire


@pytest.mark.slow
@pytest.mark.parametrize("fill", [bytes(1), b"data: {}\n\n", NOISE], ids=["NUL", "events", "noise"])
@pytest.mark.parametrize("encoding", ONE_SHOT)
def test_bodies_of_any_size_come_out_as_the_one_shot_function_gives_them(encoding, fill):
    for size in SIZES:
        data = (fill * (size // len(fill) + 1))[:size]
        wire = encode_fast(data, encoding)
        assert ONE_SHOT[encoding](wire) == data
        decoded = decode_body(wire, encoding)
        assert (decoded.problem, decoded.body == data) == (None, True), size


@st.composite
def bodies(draw) -> bytes:
    """Parts that compress well and parts that do not, from empty to some megabytes."""
    parts = draw(st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 20_000)), max_size=4))
    return b"".join(part * times for part, times in parts)[:3_000_000]


@given(bodies(), st.sampled_from([*ONE_SHOT]))
def test_any_body_comes_out_as_the_one_shot_function_gives_it(data, encoding):
    wire = ENCODERS[encoding](data)
    decoded = decode_body(wire, encoding)
    assert (decoded.problem, decoded.body == data) == (None, True)


@given(bodies(), st.sampled_from([*ONE_SHOT]), st.data())
def test_a_body_cut_anywhere_gives_a_beginning_and_never_claims_to_be_whole(data, encoding, draw):
    wire = ENCODERS[encoding](data)
    cut = wire[: draw.draw(st.integers(1, max(1, len(wire) - 1)))]
    decoded = decode_body(cut, encoding)
    assert (decoded.problem is None) == (cut == wire)
    assert data.startswith(decoded.text) or decoded.text == cut


@given(bodies(), st.sampled_from([*ONE_SHOT]), st.data())
def test_a_damaged_body_is_whole_only_where_the_one_shot_function_takes_it(data, encoding, draw):
    wire = bytearray(ENCODERS[encoding](data))
    wire[draw.draw(st.integers(0, len(wire) - 1))] ^= draw.draw(st.integers(1, 255))
    decoded = decode_body(bytes(wire), encoding)
    if decoded.problem is None:
        assert decoded.body == ONE_SHOT[encoding](bytes(wire))


@given(bodies(), st.sampled_from([*ONE_SHOT]))
def test_the_size_of_the_slices_makes_no_difference(data, encoding):
    wire = ENCODERS[encoding](data)[:3000]
    whole = decode_body(wire, encoding)
    for size in (1, 7):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decode, "SLICE_BYTES", size)
            assert decode_body(wire, encoding) == whole


def test_deflate_may_be_the_bare_format():
    assert decode_body(raw_deflate(TEXT), "deflate").body == TEXT


@pytest.mark.parametrize("header", [None, "", "identity", " Identity , ", ","])
def test_a_body_that_is_not_encoded_stays_as_it_is(header):
    decoded = decode_body(TEXT, header)
    assert decoded.body is TEXT
    assert decoded.problem is None


@pytest.mark.parametrize(
    ("header", "wire"),
    [
        ("gzip, br", brotli.compress(gzip.compress(TEXT))),
        ("br,gzip", gzip.compress(brotli.compress(TEXT))),
        ("identity, GZIP", gzip.compress(TEXT)),
        ("deflate, gzip, zstd", zstd(gzip.compress(zlib.compress(TEXT)))),
    ],
    ids=["gzip, br", "br,gzip", "identity, GZIP", "deflate, gzip, zstd"],  # the bytes hold the time
)
def test_stacked_encodings_are_undone_from_the_last(header, wire):
    assert decode_body(wire, header).body == TEXT


@pytest.mark.parametrize("padding", [b"", b"\0" * 700])
def test_members_of_gzip_follow_each_other(padding):
    wire = gzip.compress(TEXT) + gzip.compress(NOISE) + padding
    assert decode_body(wire, "gzip").body == TEXT + NOISE


def test_frames_of_zstd_follow_each_other():
    assert decode_body(zstd(TEXT) + zstd(NOISE), "zstd").body == TEXT + NOISE


@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_truncated_stream_gives_its_beginning(encoding):
    wire = ENCODERS[encoding](NOISE)
    decoded = decode_body(wire[:-20], encoding)
    assert decoded.problem == "truncated"
    assert decoded.is_readable_to_its_end
    assert decoded.body == decoded.text
    assert NOISE.startswith(decoded.text) or decoded.body == wire[:-20]


def test_a_truncated_gzip_stream_gives_all_that_had_been_flushed():
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb") as stream:
        stream.write(TEXT)
        stream.flush()
        flushed = buffer.getvalue()
    assert decode_body(flushed, "gzip").body == TEXT


def test_a_truncated_stream_that_gave_nothing_is_kept_raw():
    wire = gzip.compress(TEXT)[:10]
    decoded = decode_body(wire, "gzip")
    assert (decoded.body, decoded.problem) == (wire, "truncated")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bad_checksum_keeps_the_raw_body_and_reads_all_of_the_text(encoding):
    wire = bytearray(ENCODERS[encoding](TEXT))
    wire[-5 if encoding == "gzip" else -1] ^= 0xFF
    decoded = decode_body(bytes(wire), encoding)
    assert (decoded.body, decoded.text, decoded.problem) == (bytes(wire), TEXT, "corrupt")
    assert not decoded.is_readable_to_its_end


@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_corrupt_end_keeps_the_raw_body(encoding):
    wire = ENCODERS[encoding](NOISE) + b"this is no frame" * 100
    decoded = decode_body(wire, encoding)
    assert (decoded.body, decoded.problem) == (wire, "corrupt")
    assert decoded.text == NOISE


def test_a_stack_with_a_corrupt_outer_layer_is_read_as_far_as_it_goes():
    outer = bytearray(gzip.compress(gzip.compress(NOISE)))
    outer[-5] ^= 0xFF
    decoded = decode_body(bytes(outer), "gzip, gzip")
    assert (decoded.body, decoded.text, decoded.problem) == (bytes(outer), NOISE, "corrupt")


@pytest.mark.parametrize("header", ["compress", "aws-chunked", "gzip, secret"])
def test_an_unknown_encoding_keeps_the_raw_body(header):
    decoded = decode_body(TEXT, header)
    assert (decoded.body, decoded.problem) == (TEXT, "unknown_encoding")


def test_plain_text_labelled_as_compressed_is_read_as_it_is():
    decoded = decode_body(TEXT, "gzip")
    assert (decoded.body, decoded.text, decoded.problem) == (TEXT, TEXT, "corrupt")


BOMB_BYTES = 40_000_000


@functools.cache
def nested(encoding: str, layers: int) -> bytes:
    """Return a bomb in several layers."""
    return encode_fast(nested(encoding, layers - 1) if layers > 1 else bytes(BOMB_BYTES), encoding)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_bomb_stops_at_the_cap(encoding, monkeypatch):
    monkeypatch.setattr(decode, "MAX_DECODED_BYTES", 1_000_000)
    wire = nested(encoding, 1)
    tracemalloc.start()
    decoded = decode_body(wire, encoding)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (decoded.body, decoded.problem) == (wire, "too_large")
    assert decoded.text == bytes(1_000_000)
    assert peak < 12_000_000


@pytest.mark.slow
@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_bomb_in_several_layers_stops_at_one_allowance_for_all_of_them(encoding, layers):
    wire = nested(encoding, layers)
    assert len(wire) < 20_000
    tracemalloc.start()
    decoded = decode_body(wire, ", ".join([encoding] * layers))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (decoded.body, decoded.problem) == (wire, "too_large")
    assert peak < 28_000_000


SKIPPABLE = b"\x50\x2a\x4d\x18" + bytes(4)
EMPTY_FRAMES = {"gzip": gzip.compress(b"", mtime=0), "zstd": zstd(b""), "skippable": SKIPPABLE}


def count_frames(monkeypatch, name: str) -> list[int]:
    """Note the decompressors that are made from now on."""
    made: list[int] = []
    module, function = (
        (zlib, "decompressobj") if name == "gzip" else (zstandard, "ZstdDecompressor")
    )
    make = getattr(module, function)

    class Counting:
        def __init__(self, *args, **kwargs):
            self._context = make(*args, **kwargs)

        def decompressobj(self):
            made.append(1)
            return self._context.decompressobj()

    def note(*args):
        made.append(1)
        return make(*args)

    monkeypatch.setattr(module, function, note if name == "gzip" else Counting)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("outer", ["", "br", "gzip"])
@pytest.mark.parametrize("name", EMPTY_FRAMES)
def test_frames_that_give_nothing_are_decoded_up_to_the_allowance(name, outer, monkeypatch):
    monkeypatch.setattr(decode, "MAX_DECODED_BYTES", 8_000_000)
    empties = EMPTY_FRAMES[name] * 50_000
    wire = encode_fast(empties, outer) if outer else empties
    inner = "gzip" if name == "gzip" else "zstd"
    made = count_frames(monkeypatch, name)
    decoded = decode_body(wire, f"{inner}, {outer}")
    assert (decoded.body, decoded.problem) == (wire, "too_large")
    assert len(made) <= (8_000_000 if not outer else ALWAYS_DECODED_BYTES) // 256 + 2


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_long_stream_of_one_frame_for_each_event_is_decoded(encoding):
    event = b'event: content_block_delta\ndata: {"index":0,"delta":{"text":"a few words"}}\n\n'
    wire = ENCODERS[encoding](event) * 50_000
    decoded = decode_body(wire, encoding)
    assert (decoded.problem, decoded.body == event * 50_000) == (None, True)


def test_what_an_outer_encoding_gives_counts_twice():
    size = ALWAYS_DECODED_BYTES * 2 // 5
    padding = SKIPPABLE[:4] + size.to_bytes(4, "little") + bytes(size)
    wire = brotli.compress(padding + zstd(bytes(size)))
    decoded = decode_body(wire, "zstd, br")
    assert (decoded.body, decoded.problem) == (wire, "too_large")


def test_a_damaged_bomb_stops_at_the_cap(monkeypatch):
    monkeypatch.setattr(decode, "MAX_DECODED_BYTES", 100_000)
    wire = zstd(bytes(128 * 1024 * 20))[:-4] + b"\xff" * 8
    assert len(wire) < decode.ZSTD_SLICE_BYTES
    assert len(decode_body(wire, "zstd").text) <= 100_000


def test_more_encodings_than_anybody_uses_are_not_undone():
    wire = TEXT
    for _ in range(4):
        wire = gzip.compress(wire)
    decoded = decode_body(wire, "gzip, gzip, gzip, gzip")
    assert (decoded.body, decoded.problem) == (wire, "too_many_encodings")


@functools.cache
def make_real_text() -> bytes:
    line = b'event: content_block_delta\ndata: {"index":0,"delta":{"text":"%d"}}\n\n'
    return b"".join(line % (number * 7919) for number in range(80_000))


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ONE_SHOT)
def test_real_text_that_compresses_well_is_decoded_however_large_it_is(encoding):
    body = make_real_text()
    wire = encode_fast(body, encoding)
    assert len(body) > ALWAYS_DECODED_BYTES + 1_000_000
    assert decode_body(wire, encoding).body == body


def test_a_short_body_of_many_spaces_is_decoded_whatever_its_ratio():
    body = b'{"model":"m"}' + b" " * 4_000_000
    wire = gzip.compress(body)
    assert len(body) > 500 * len(wire)
    assert decode_body(wire, "gzip").body == body


@given(
    st.binary(max_size=300),
    st.sampled_from([*ENCODERS, "gzip, br", "nonsense", ""]),
    st.sampled_from([None, *ENCODERS]),
    st.integers(0, 400),
)
def test_no_bytes_make_it_raise(data, header, encoder, cut):
    wire = ENCODERS[encoder](data)[:cut] if encoder else data
    decoded = decode_body(wire, header)
    if decoded.problem not in (None, "truncated"):
        assert decoded.body == wire


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a":1}', {"a": 1}),
        (b'\xef\xbb\xbf {"a":1}\n', {"a": 1}),
        (b'{"a":"\xff"}', {"a": "\ufffd"}),
        (b'{"a":"\\ud800","b":2}', {"a": "\ud800", "b": 2}),
        (b"[1]", None),
        (b"<html>", None),
        (b"", None),
        (b'{"a":', None),
        (b'{"a":' * 100_000, None),
        (b'{"a":' + b"9" * 5000 + b"}", None),
    ],
)
def test_json_is_read_leniently(data, value):
    assert parse_object(data) == value


@pytest.mark.parametrize("unit", [b"[" * 100 + b"]" * 100 + b",", b'{"a":{}},', b"[],"])
def test_a_heap_of_arrays_and_objects_is_not_made(unit):
    heap = b'{"model":"m","data":[' + unit * (5_000_000 // len(unit)) + b"0]}"
    tracemalloc.start()
    parsed = parse_object(heap)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert parsed is None
    assert peak < 30_000_000


def test_a_large_message_is_read_and_a_heap_of_tiny_values_is_not():
    message = b'{"model":"m","data":"' + b"A" * 9_000_000 + b'"}'
    heap = b'{"model":"m","data":[' + b"{}," * 3_000_000 + b"{}]}"
    parsed = parse_object(message)
    assert parsed is not None
    assert parsed["model"] == "m"
    assert parse_object(heap) is None
