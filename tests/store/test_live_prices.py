import os

import pytest

from store.price_file import LivePrices


def test_a_bad_price_file_at_the_start_leaves_the_built_in_prices(tmp_path, caplog):
    path = tmp_path / "prices.toml"
    path.write_text("{{{")
    prices = LivePrices(path)
    assert "CANNOT BE USED" in caplog.text
    assert prices() is not None
    path.write_text("models = []")
    before = prices()
    prices.refresh()
    assert prices() is not before


def test_a_price_file_that_becomes_bad_leaves_the_last_good_prices(tmp_path, caplog):
    path = tmp_path / "prices.toml"
    path.write_text("models = []")
    prices = LivePrices(path)
    good = prices()
    path.write_text("[[models]]\nmatch = 3")
    prices.refresh()
    assert prices() is good
    prices.refresh()
    assert caplog.text.count("CANNOT BE USED") == 1


@pytest.mark.parametrize(
    "content",
    [
        *("{{{", "models = 1", "x = " + "[" * 3000, "x = [\n" * 50_000, "#" * 10_000_000, "\0"),
        *(f"[[models]]\nmatch = 'x'\nstarts = 2026-01-01\ninput = {rate}" for rate in ("nan", "1e" + "9" * 30)),
    ],
    ids=lambda text: ascii(text[-20:]),
)  # fmt: skip
def test_no_content_of_a_price_file_ends_the_recorder(tmp_path, caplog, content):
    path = tmp_path / "prices.toml"
    path.write_text("models = []")
    prices = LivePrices(path)
    good = prices()
    path.write_text(content)
    prices.refresh()
    assert prices() is good
    assert (
        "THE PRICE FILE CANNOT BE USED, the prices from before stay: prices.toml: " in caplog.text
    )
    path.unlink()
    os.mkfifo(path)
    prices.refresh()
    assert prices() is good
    path.unlink()
    path.write_text("models = [] ")
    prices.refresh()
    assert prices() is not good
