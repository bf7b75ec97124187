import pytest

from dashboard.overview.chart import HEIGHT, RIGHT, TOP, make_chart


def test_parts_stand_on_each_other_and_bars_beside_each_other():
    chart = make_chart([[10, 0, 30], [0, 0, 0], [5, 5, 90]], ["a", "b", "c"], str)
    first, empty, last = chart.bars
    assert [part.kind for part in first.parts] == [0, 2]
    assert not empty.parts
    assert first.parts[0].y + first.parts[0].height == TOP + HEIGHT
    assert first.parts[1].y + first.parts[1].height == first.parts[0].y
    assert last.parts[-1].y == TOP
    assert [part.height / HEIGHT for part in last.parts] == pytest.approx([0.05, 0.05, 0.9])
    assert last.left + last.room == pytest.approx(RIGHT, abs=0.02)


def test_whatever_there_is_is_seen():
    chart = make_chart([[1, 100_000]], ["a"], str)
    assert chart.bars[0].parts[0].height > 1


def test_many_steps_have_few_labels():
    chart = make_chart([[1]] * 90, [str(number) for number in range(90)], str)
    assert len(chart.steps) <= 7
    assert chart.steps[0].text == "0"


def test_nothing_has_a_chart_without_bars():
    chart = make_chart([[], []], ["a", "b"], str)
    assert not any(bar.parts for bar in chart.bars)
    assert [label.text for label in chart.values] == ["0.0", "1.0"]
