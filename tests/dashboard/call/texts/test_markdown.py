"""Markdown of traces: what it becomes, what it must never become, and that it hides no word."""

import html
import re

import pytest
from hypothesis import given, strategies as st

from dashboard.call.texts.highlighting import Ink, find_language, highlight
from dashboard.call.texts.markdown import MAX_CHARS, render_markdown


def render(text):
    return render_markdown(text, Ink())


def text_of(markup):
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("**a** *b* `c` ~~d~~", "<p><strong>a</strong> <em>b</em> <code>c</code> <s>d</s></p>\n"),
        ("one\ntwo", "<p>one<br>\ntwo</p>\n"),
        ("## Title", '<div class="h2">Title</div>\n'),
        ("7. a", '<ol start="7">\n<li value="7">a</li>\n</ol>\n'),
        ("&amp;", "<p>&amp;amp;</p>\n"),
        (
            "```python\nif 1: pass\n```",
            '<p class="language">python</p><pre><code><span class="hl-keyword">if</span>'
            ' <span class="hl-number">1</span>: <span class="hl-keyword">pass</span>\n</code></pre>\n',
        ),
    ],
)
def test_markdown_becomes_markup(text, markup):
    assert render(text) == markup


def test_a_link_leads_elsewhere_and_shows_where():
    assert render('[here](https://a.example/b "c")') == (
        '<p><a href="https://a.example/b" rel="noopener noreferrer nofollow">here</a>'
        ' <span class="address">(https://a.example/b) "c"</span></p>\n'
    )
    assert "address" not in render("<https://a.example/b>"), "its words are its address"


@pytest.mark.parametrize(
    "address", ["/sign-out", "//evil.example", "settings", "#main", "ftp://a.example", "mailtox:a"]
)
def test_a_link_never_leads_into_this_service(address):
    shown = render(f"[here]({address})")
    assert "<a" not in shown
    assert address in shown


def test_an_image_is_a_link_and_is_not_loaded():
    shown = render("![a cat](https://a.example/cat.png) ![](data:image/png;base64,AAAA)")
    assert "<img" not in shown
    assert 'href="https://a.example/cat.png"' in shown
    assert "data:" in text_of(shown)
    assert "a cat" in text_of(shown)


HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt&colon;alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)",
    '[a](https://x.example/" onmouseover="alert(1))',
    '![" onerror="alert(1)](https://x.example "\'><svg onload=alert(1)>")',
    "<https://x.example/\"onclick='alert(1)>",
    '```"><script>alert(1)</script>\ncode\n```',
    "<style>*{display:none}</style>",
    "<div class='problem' style='color:red' id=main>",
    "<!-- hidden -->",
    "| <b onclick=alert(1)> |\n|-|\n",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_markdown_is_text(text):
    shown = render(text)
    assert shown is not None
    allowed = r"<(/?[a-z0-9]+|a href=\"(https?|mailto):[^\"<>]*\" rel=\"[a-z ]+\"|span class=\"address\"|p class=\"language\"|div class=\"table-scroll\" tabindex=\"0\")>"
    for tag in re.findall(r"<[^>]*>", shown):
        assert re.fullmatch(allowed, tag), tag
        assert not re.match(r"</?(script|img|svg|style|iframe|base|form)", tag)


@pytest.mark.parametrize("text", ["| a | b |\n|-|-|\n| 1 | 2 | hidden |"])
def test_text_of_which_markdown_would_hide_words_is_not_markdown(text):
    assert render(text) is None


def test_a_definition_of_a_reference_is_text():
    assert "hidden" in text_of(render("[//]: # (hidden)\n\nseen"))


@given(st.text(st.sampled_from("ab12 \n\t*_`[]()<>!|-#&;:\\\"'/.~=+x"), max_size=80))
def test_no_word_is_lost_and_no_markup_comes_in(text):
    shown = render(text)
    if shown is not None:
        numbers = re.sub(r'<li value="(\d+)">', r"\1", shown)
        assert re.sub(r"[\W_]", "", text_of(numbers)) == re.sub(r"[\W_]", "", text)
        assert "<script" not in shown


def test_long_text_and_deep_text_are_not_markdown():
    assert render("a" * MAX_CHARS) is not None
    assert render("a" * (MAX_CHARS + 1)) is None
    render(">" * 5_000 + "a")
    render("[" * 5_000 + "a")


# -- code ----------------------------------------------------------------------------------------------


def test_code_keeps_every_character():
    for code in ("\n\nif x:\n\ty = '<b>'\n\n", "no end", " ", "", "\\", "'\"", "é\u2028x"):
        assert text_of(highlight(code, "python", Ink())) == code


def test_code_is_coloured_while_the_ink_lasts():
    ink = Ink(10)
    assert "hl-number" in highlight("x = 1", "python", ink)
    assert ink.left == 5
    assert highlight("x = 12", "python", ink) == "x = 12"
    assert "hl-number" in highlight("x = 1", "python", ink)


@pytest.mark.parametrize("language", ["", "klingon", "../x", "a" * 1000])
def test_an_unknown_language_has_no_colours(language):
    assert highlight("<b> 1", language, Ink()) == "&lt;b&gt; 1"


def test_the_language_of_a_file_follows_from_its_name():
    assert find_language("/a/b.py") == "python"
    assert find_language("C:\\src\\App.TSX") == "typescript"
    assert find_language("Makefile.weird") == ""
