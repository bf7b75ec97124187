import pytest

from runtime.safe_text import header_line, reveal, terminal_line, terminal_lines


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


@pytest.fixture(scope="module")
def everything():
    return "".join(map(chr, range(0x110000)))


def test_whatever_is_shown_can_be_sent(everything):
    assert reveal(everything).encode()


@pytest.mark.parametrize("make_line", [terminal_line, header_line])
def test_a_line_has_nothing_that_steers_a_terminal_or_begins_another_line(make_line, everything):
    line = make_line(everything)
    assert line.isprintable()
    assert make_line("plain grüße 😀 日本語") == "plain grüße 😀 日本語"
    assert len(make_line("a\r\nb").splitlines()) == 1


def test_a_terminal_shows_where_a_character_was_replaced():
    assert terminal_line("\x1b[2Jname\u202e\n") == "?[2Jname??"


def test_letters_are_not_joined_on_a_terminal_since_their_width_would_be_unknown():
    assert terminal_line("👩\u200d🔬") == "👩🔬"


def test_lines_stay_lines_and_each_of_them_is_safe():
    assert terminal_lines("one\r\ntwo\x07\n") == "one?\ntwo?\n"


def test_a_header_has_spaces_where_characters_were_replaced():
    assert header_line("A\r\nBcc: eve\x1b") == "A  Bcc: eve "
