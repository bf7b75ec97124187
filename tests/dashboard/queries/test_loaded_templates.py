from jinja2 import meta

from dashboard import rendering


def test_templates_are_loaded_with_all_that_they_refer_to(monkeypatch):
    environment = rendering._templates.overlay()  # of which nothing is loaded
    monkeypatch.setattr(rendering, "_templates", environment)
    rendering.load_templates(["call_cost.html"])
    loaded = {name for _, name in environment.cache or ()}
    assert loaded >= {"call_cost.html", "call.html", "layout.html", "_call_rail.html", "_top.html"}
    assert "home.html" not in loaded


def test_the_templates_that_one_refers_to_are_those_that_jinja_finds():
    environment, found = rendering._templates, set[str | None]()
    for name in environment.list_templates():
        assert environment.loader is not None
        source, _, _ = environment.loader.get_source(environment, name)
        referenced = {*meta.find_referenced_templates(environment.parse(source))}
        assert rendering.find_referenced(source) == referenced, name
        found |= referenced
    assert {"layout.html", "_components.html", "_plain.html", "trace_blocks.html"} <= found
