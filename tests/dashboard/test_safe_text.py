import pytest

from dashboard.safe_text import Allowance, reveal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("grüße 😀 日本語", "grüße 😀 日本語"),
        ("a\r\nb\rc", "a\nb⟨U+000D⟩c"),
        ("\x00\x1b[31m\x7f", "⟨U+0000⟩⟨U+001B⟩[31m⟨U+007F⟩"),
        ("user\u202etxt.exe\u202c", "user⟨U+202E⟩txt.exe⟨U+202C⟩"),
        ("\u2066\u200f\ufeff\u200b", "⟨U+2066⟩⟨U+200F⟩⟨U+FEFF⟩⟨U+200B⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("\x9b\u2028", "⟨U+009B⟩⟨U+2028⟩"),
        ("👩\u200d🔬", "👩\u200d🔬"),
    ],
)
def test_what_nobody_would_see_is_shown(text, shown):
    assert reveal(text) == shown


def test_whatever_is_shown_can_be_sent():
    everything = "".join(map(chr, range(0x110000)))
    assert reveal(everything).encode()


def test_an_allowance_is_used_up():
    allowance = Allowance(10, cost_of_a_part=1)
    assert allowance.take("abcd") == ("abcd", 0)
    assert allowance.take("efghijklm") == ("efghi", 4)
    assert allowance.is_used_up
    assert allowance.take("n") == ("", 1)


def test_parts_without_text_use_it_up_too():
    allowance = Allowance(1000)
    assert sum(1 for _ in range(100) if not (allowance.is_used_up or allowance.take("").text)) < 10


def test_json_is_written_only_as_far_as_it_is_shown():
    value: object = 1
    for _ in range(300):
        value = [value, value]  # no computer could write all of it
    text, left_out = Allowance(1000).take_json(value)
    assert (len(text), left_out) == (1000, 1)


def test_what_json_cannot_write_is_shown_nonetheless():
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    assert Allowance(100).take_json(deep).text.startswith("[\n  [")
    assert Allowance(10**9).take_json(deep).text.endswith("…")
    assert "⟨U+D800⟩" in Allowance(100).take_json({"a": "\ud800"}).text
