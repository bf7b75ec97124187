from hypothesis import given, strategies as st

from manage.batch_download import split_lines

texts = st.lists(st.sampled_from([b"", b"a", b"bb", b"cccc", b"\n", b"d\ne"]), max_size=12)


@given(texts)
def test_lines_are_the_same_however_they_are_cut_into_chunks(chunks):
    whole = b"".join(chunks)
    lines = whole.split(b"\n")
    expected = lines if lines[-1] else lines[:-1]
    assert list(split_lines(chunks, 100)) == expected
    bounded = [line if len(line) <= 2 else None for line in expected]
    assert list(split_lines(chunks, 2)) == bounded


def test_of_a_line_that_is_too_long_nothing_is_kept():
    chunks = [b"x" * 10] * 1000 + [b"\nshort\n"]
    assert list(split_lines(chunks, 20)) == [None, b"short"]
