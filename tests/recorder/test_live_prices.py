from recorder.live_prices import LivePrices


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
