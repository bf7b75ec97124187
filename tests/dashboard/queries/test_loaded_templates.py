from jinja2 import DictLoader, Environment, meta

from dashboard.queries.page_renderer import TEMPLATES
from tests import ROOT

SOURCES = {path.name: path.read_text() for path in (ROOT / "dashboard/templates").glob("*.html")}


def find_referenced(name):
    """The templates that one refers to, and those that these do."""
    environment = Environment(
        loader=DictLoader(SOURCES), extensions=["jinja2.ext.do"], autoescape=True
    )
    found, left = set(), {name}
    while left:
        found |= left
        parsed = map(environment.parse, (SOURCES[each] for each in left))
        left = {
            str(each) for tree in parsed for each in meta.find_referenced_templates(tree)
        } - found
    return found


def test_the_pool_loads_the_templates_of_calls_and_turns_and_no_others():
    pages = [
        name for name in SOURCES if name.startswith(("call_", "call.", "trace_", "session_turn"))
    ]
    needed = set().union(*map(find_referenced, pages))

    assert {name for name in SOURCES if name.startswith(TEMPLATES)} == needed
