"""The alignment of sequences, and the words in which texts differ."""

from hypothesis import given, strategies as st

from dashboard.compare.alignment import Effort, align
from dashboard.compare.words import compare_texts

ITEMS = st.lists(st.sampled_from("abcdefg"), max_size=30)
WORDS = st.text(st.sampled_from("ab \n."), max_size=40)


def rebuild(old, new, spans):
    """Return both sequences as the spans tell them, having checked that spans join and alternate."""
    at_old = at_new = 0
    before, after = [], []
    for n, span in enumerate(spans):
        assert (span.old, span.new) == (at_old, at_new)
        at_old, at_new = span.old_end, span.new_end
        assert n == 0 or spans[n - 1].is_equal != span.is_equal
        if span.is_equal:
            assert old[span.old : span.old_end] == new[span.new : span.new_end]
        before += old[span.old : span.old_end]
        after += new[span.new : span.new_end]
    return before, after


@given(ITEMS, ITEMS, st.sampled_from([0, 50, 10_000]))
def test_spans_cover_both_sequences_whatever_the_effort(old, new, steps):
    assert rebuild(old, new, align(old, new, Effort(steps))) == (old, new)


def test_what_was_put_between_long_stretches_is_found():
    numbers = list(range(5_000))
    old = [*numbers[:2_000], -1, *numbers[2_000:]]
    new = [*numbers[:1_000], -2, *numbers[1_000:4_000], -3, *numbers[4_000:]]
    spans = align(old, new, Effort())
    assert rebuild(old, new, spans) == (old, new)
    changed = [(old[s.old : s.old_end], new[s.new : s.new_end]) for s in spans if not s.is_equal]
    assert changed == [([], [-2]), ([-1], []), ([], [-3])]


def test_an_effort_that_is_used_up_counts_the_rest_as_different():
    old, new = list("xaby"), list("zabw")
    assert [span.is_equal for span in align(old, new, Effort())] == [False, True, False]
    assert [span.is_equal for span in align(old, new, Effort(0))] == [False]


def kinds(runs):
    return [(run.kind, run.text) for run in runs]


def test_words_that_differ_are_named_with_what_is_around():
    runs = compare_texts("You write British English.", "You write American English.", Effort())
    assert kinds(runs) == [
        ("equal", "You write "),
        ("removed", "British"),
        ("added", "American"),
        ("equal", " English."),
    ]


def test_neighbouring_changes_are_one():
    runs = compare_texts("one two three four", "one 2 3 four", Effort())
    assert kinds(runs)[1:3] == [("removed", "two three"), ("added", "2 3")]


def test_two_other_texts_are_not_mixed_word_by_word():
    runs = compare_texts("The test of the tariff fails.", "Everything works, even here.", Effort())
    assert [kind for kind, _ in kinds(runs)] == ["removed", "added", "equal"]


def test_long_equal_stretches_are_counted():
    text = "same words again " * 1_000
    runs = kinds(compare_texts(f"{text}old{text}", f"{text}new{text}", Effort()))
    assert [kind for kind, _ in runs] == [
        "folded",
        "equal",
        "removed",
        "added",
        "equal",
        "folded",
    ]
    assert runs[0][1] == "… 16,840 equal characters …"
    assert sum(len(text) for _, text in runs) < 1_000


def test_what_is_too_long_is_compared_at_its_beginning():
    (*_, last) = compare_texts("a " * 200_000, "b " * 150_000, Effort())
    assert last.text == "… 200,000 more characters were not compared"


@given(WORDS, WORDS)
def test_runs_hold_every_word_of_both_texts(before, after):
    runs = compare_texts(before, after, Effort())
    old = "".join(run.text for run in runs if run.kind in ("equal", "removed"))
    new = "".join(run.text for run in runs if run.kind in ("equal", "added"))
    assert (old, new) == (before, after)
