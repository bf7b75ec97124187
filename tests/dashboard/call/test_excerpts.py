from dashboard.call.excerpts import Allowance


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
