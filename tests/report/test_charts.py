"""Charts: the right places, honest axes, hostile labels."""

from __future__ import annotations

import xml.etree.ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefkit.report.charts import WIDTH, Bar, Line, Row, bars, gain_domain, lines, ranges, share_domain, ticks

SVG = "{http://www.w3.org/2000/svg}"


def parts(chart: str, tag: str, look: str = "") -> list[dict[str, str]]:
    return [e.attrib for e in Xml.fromstring(chart).iter(f"{SVG}{tag}") if look in e.attrib.get("class", "")]


def texts(chart: str, look: str = "") -> list[str]:
    return [e.text or "" for e in Xml.fromstring(chart).iter(f"{SVG}text") if look in e.attrib.get("class", "")]


def test_a_range_stands_where_its_figures_are() -> None:
    chart = ranges("r", "Scores", [Row("Base", "25 %", 0.25, 0.2, 0.4, "base"), Row("Final", "50 %", 0.5, 0.5, 0.5, "final")], (0.0, 1.0))
    inner = WIDTH - 16
    dots = [float(dot["cx"]) for dot in parts(chart, "circle")]
    assert dots == pytest.approx([8 + 0.25 * inner, 8 + 0.5 * inner], abs=0.06)
    first, second = parts(chart, "rect", "range")
    assert float(first["x"]) == pytest.approx(8 + 0.2 * inner, abs=0.06)
    assert float(first["width"]) == pytest.approx(0.2 * inner, abs=0.11)
    assert float(second["width"]) == 1.0
    assert texts(chart, "tick") == ["0\u00a0%", "20\u00a0%", "40\u00a0%", "60\u00a0%", "80\u00a0%", "100\u00a0%"]


def test_a_gain_chart_has_its_zero_line_at_zero() -> None:
    rows = [Row("a", "-2", -0.02, -0.08, 0.04, "nothing"), Row("b", "+30", 0.3, 0.2, 0.4, "gain")]
    chart = ranges("g", "Gains", rows, gain_domain([-0.08, 0.2], [0.04, 0.4]), "points")
    zero, other = parts(chart, "line", "zero")
    assert zero["x1"] == other["x1"]
    dots = [float(dot["cx"]) for dot in parts(chart, "circle")]
    assert dots[0] < float(zero["x1"]) < dots[1]
    assert "+20" in texts(chart, "tick")
    assert [dot["class"] for dot in parts(chart, "circle")] == ["dot nothing", "dot gain"]


def test_bars_start_at_0_and_are_as_long_as_their_counts() -> None:
    chart = bars("b", "Failures", [Bar("syntax", "40", 40, "base"), Bar("", "10", 10, "final"), Bar("none", "0", 0, "base")])
    lengths = [float(bar["width"]) for bar in parts(chart, "rect")]
    assert lengths[0] == pytest.approx(4 * lengths[1])
    assert lengths[2] == 0
    assert {bar["x"] for bar in parts(chart, "rect")} == {"8"}


def test_bars_of_nothing_do_not_divide_by_0() -> None:
    assert [bar["width"] for bar in parts(bars("b", "Failures", [Bar("none", "0", 0, "base")]), "rect")] == ["0.0"]


def test_a_curve_goes_through_its_points_and_says_them_in_words() -> None:
    chart = lines("c", "Loss", [Line("loss", [(1.0, 2.0), (5.0, 1.0), (11.0, 0.5)])])
    (curve,) = parts(chart, "polyline")
    points = [tuple(map(float, point.split(","))) for point in curve["points"].split()]
    assert points[0][0] == 46
    assert points[-1][0] == WIDTH - 12
    assert points[1][0] == pytest.approx(46 + 0.4 * (WIDTH - 58), abs=0.06)
    assert points[0][1] < points[1][1] < points[2][1]
    described = next(Xml.fromstring(chart).iter(f"{SVG}desc")).text or ""
    assert described == "loss: from 2 at step 1 to 0.5 at step 11"


def test_a_tremor_in_shares_is_not_drawn_as_a_leap() -> None:
    chart = lines("c", "Validation", [Line("greedy", [(1.0, 0.47), (2.0, 0.48)])], "%")
    (curve,) = parts(chart, "polyline")
    heights = [float(point.split(",")[1]) for point in curve["points"].split()]
    assert abs(heights[0] - heights[1]) < 10


@given(
    st.lists(st.tuples(st.floats(0, 1e4, allow_nan=False), st.floats(-1e6, 1e6, allow_nan=False)), min_size=2, max_size=20),
    st.sampled_from(["", "%"]),
)
def test_any_curve_stays_inside_its_frame(points: list[tuple[float, float]], unit: str) -> None:
    chart = lines("c", "t", [Line("a", sorted(points))], unit)
    (curve,) = parts(chart, "polyline")
    for point in curve["points"].split():
        x, y = map(float, point.split(","))
        assert 45.9 <= x <= WIDTH - 11.9
        assert 11.9 <= y <= 168.1


@given(st.floats(-1e6, 1e6, allow_nan=False), st.floats(1e-6, 1e6), st.integers(4, 8))
def test_ticks_are_few_round_and_inside(low: float, span: float, most: int) -> None:
    high = low + span
    if high - low < abs(low) * 1e-6:
        return
    found = ticks(low, high, most)
    assert len(found) <= most
    assert all(low - span * 1e-3 <= tick <= high + span * 1e-3 for tick in found)
    assert found == sorted(set(found))


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=5))
def test_the_axis_of_gains_holds_zero_and_every_interval(intervals: list[tuple[float, float]]) -> None:
    lows, highs = [min(pair) for pair in intervals], [max(pair) for pair in intervals]
    low, high = gain_domain(lows, highs)
    assert low < 0 < high
    assert low <= min(lows) + 1e-9
    assert high >= max(highs) - 1e-9


def test_the_axis_of_scores_begins_at_0() -> None:
    assert [share_domain(share) for share in (0.0, 0.09, 0.2, 0.5, 0.51, 1.0)] == [(0.0, top) for top in (0.1, 0.1, 0.25, 0.5, 1.0, 1.0)]


def test_labels_are_text_whatever_they_hold() -> None:
    hostile = '</text><script>x</script>"\x00\u202e'
    for chart in (
        ranges("r", hostile, [Row(hostile, hostile, 0.5, 0.4, 0.6, "base")], (0.0, 1.0)),
        bars("b", hostile, [Bar(hostile, hostile, 1, "base")]),
        lines('"><x', hostile, [Line(hostile, [(1.0, 1.0), (2.0, 2.0)]), Line(hostile, [(1.0, 1.0), (2.0, 2.0)])]),
    ):
        tags = {element.tag.removeprefix(SVG) for element in Xml.fromstring(chart).iter()}
        assert tags <= {"svg", "title", "desc", "line", "text", "rect", "circle", "polyline"}
        assert "\u202e" not in chart
