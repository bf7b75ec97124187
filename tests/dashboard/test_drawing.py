import pytest

from dashboard.drawing import (
    CHART_HEIGHT,
    CHART_TOP,
    bar_width,
    find_cut,
    make_chart,
    make_gauge,
    make_ticks,
    stack,
)

FOOT = CHART_TOP + CHART_HEIGHT


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, [0, 1]),
        (1, [0, 0.25, 0.5, 0.75, 1]),
        (97, [0, 25, 50, 75, 100]),
        (100, [0, 25, 50, 75, 100]),
        (101, [0, 50, 100, 150]),
        (0.0031, [0, 0.001, 0.002, 0.003, 0.004]),
    ],
)
def test_the_values_of_an_axis_are_round(most, ticks):
    assert make_ticks(most) == pytest.approx(ticks)


@pytest.mark.parametrize(("most", "ticks"), [(1, [0, 1]), (3, [0, 1, 2, 3]), (9, [0, 3, 6, 9])])
def test_counts_have_whole_values(most, ticks):
    assert list(make_ticks(most, unit=1)) == ticks


@pytest.mark.parametrize(
    ("most", "ticks"),
    [(0.0068, [0, 0.01]), (0.0137, [0, 0.01, 0.02]), (0.09, [0, 0.03, 0.06, 0.09])],
)
def test_the_cost_of_a_small_call_has_no_finer_ticks_than_pages_show(most, ticks):
    assert make_ticks(most, unit=0.01) == pytest.approx(ticks)


def test_the_scale_of_a_map_ends_a_tenth_above_what_is_usual():
    assert find_cut([1.0] * 97 + [50.0, 60.0, 70.0]) == pytest.approx(1.1)


def test_the_scale_of_a_map_is_not_longer_than_its_highest_bar():
    assert find_cut([1.0, 2.0, 3.0]) == 3.0


@pytest.mark.parametrize("values", [[], [0.0, 0.0]])
def test_a_map_of_nothing_has_a_scale_too(values):
    assert find_cut(values) > 0


def test_what_is_higher_than_the_scale_is_cut_at_its_top():
    cut = stack([2.0, 8.0, 5.0], 10.0, foot=90, height=80)
    assert [part.kind for part in cut] == [0, 1]
    assert min(part.y for part in cut) == 10
    assert stack([2.0, 8.0], 10.0, foot=90, height=80) == cut


def test_parts_stand_on_each_other_and_columns_beside_each_other():
    chart = make_chart([[10, 0, 30], [0, 0, 0], [5, 5, 90]], ["a", "b", "c"], str)
    first, empty, last = chart.columns
    assert [part.kind for part in first.parts] == [0, 2]
    assert not empty.parts
    assert first.parts[0].y == pytest.approx(FOOT - 0.1 * CHART_HEIGHT)
    assert last.parts[-1].y == CHART_TOP
    assert [column.left for column in chart.columns] == ["0.00%", "33.33%", "66.67%"]
    assert [column.label for column in chart.columns] == ["a", "b", "c"]


def test_lines_of_the_grid_are_where_their_values_are():
    chart = make_chart([[7.88], [8.8]], ["a", "b"], "${:g}".format)
    assert [(tick.text, tick.y) for tick in chart.ticks] == [
        ("$0", 194),
        ("$2.5", 149),
        ("$5", 104),
        ("$7.5", 59),
        ("$10", 14),
    ]


def test_what_is_expected_stands_on_the_last_column():
    chart = make_chart([[4.0], [6.0]], ["a", "b"], str, expected=8.0)
    assert chart.columns[0].expected is None
    part = chart.columns[1].expected
    assert part is not None
    assert part.y == CHART_TOP
    assert part.y + part.height == pytest.approx(chart.columns[1].parts[0].y)
    less = make_chart([[6.0]], ["a"], str, expected=5.0)
    assert less.columns[0].expected is None


def test_whatever_there_is_is_seen():
    assert stack([1, 100_000], 100_001, foot=90, height=80)[0].height > 1


def test_many_columns_have_few_labels():
    chart = make_chart([[1]] * 90, [str(number) for number in range(90)], str)
    labels = [column.label for column in chart.columns if column.label is not None]
    assert len(labels) <= 14
    assert labels[0] == "0"
    assert sum(not each.may_go for each in chart.columns if each.label is not None) <= 7


def test_a_gauge_says_what_it_shows():
    gauge = make_gauge(0.374, 0.25)
    assert (gauge.used, gauge.pace, gauge.per_cent, gauge.is_high) == ("37%", "25%", 37, False)
    assert gauge.words == "37 % used, 25 % of the time gone"


def test_a_gauge_that_is_more_than_full_says_by_how_much():
    gauge = make_gauge(1.2)
    assert (gauge.used, gauge.pace, gauge.per_cent, gauge.is_high) == ("100%", None, 120, True)


def test_a_gauge_is_not_full_before_it_is():
    assert make_gauge(0.999).used == "99%"


@pytest.mark.parametrize(
    ("value", "most", "width"), [(1, 4, "25.00%"), (0, 0, "0.00%"), (9, 4, "100.00%")]
)
def test_bars_are_measured_by_the_highest(value, most, width):
    assert bar_width(value, most) == width
