from extensions.otel import FILE
from extensions.otel.positions import open_positions
from store.following.positions import Position
from tests.manage.metrics.conftest import find


def test_the_operator_sees_what_collectors_have_and_lack(scrape, site):
    assert "taximeter_otel_exported_total" not in {name for name, _ in scrape()}
    with open_positions(site.data_dir) as positions:
        for organization, exported, dropped in (("a", 5, 0), ("b", 2, 3)):
            position = Position(exported=exported, dropped=dropped)
            positions.write("http://c:1/v1/traces", organization, position)
    samples = scrape()
    labels = {"collector": "http://c:1/v1/traces"}
    assert find(samples, "taximeter_otel_exported_total", **labels) == 7
    assert find(samples, "taximeter_otel_dropped_total", **labels) == 3
    ours = scrape(authorization=f"Bearer {site.our_key}")
    assert not [name for name, _ in ours if "otel" in name]


def test_positions_that_cannot_be_read_leave_a_gap_in_the_figures_alone(scrape, site, caplog):
    (site.data_dir / FILE).write_bytes(b"no database" * 1000)
    samples = scrape()
    assert "taximeter_recorder_up" in {name for name, _ in samples}
    assert "lacks the figures of exports" in caplog.text
