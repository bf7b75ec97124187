from dashboard import rendering


def test_templates_are_loaded_with_all_that_they_refer_to(monkeypatch):
    environment = rendering._templates.overlay()  # of which nothing is loaded
    monkeypatch.setattr(rendering, "_templates", environment)
    rendering.load_templates(["call_cost.html"])
    loaded = {name for _, name in environment.cache or ()}
    assert loaded >= {"call_cost.html", "call.html", "layout.html", "_call_rail.html", "_top.html"}
    assert "home.html" not in loaded
