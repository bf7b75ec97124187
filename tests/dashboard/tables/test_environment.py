"""The templates of the trace browser."""

import os
import threading
from pathlib import Path

from jinja2 import meta

from dashboard.tables.environment import page_templates
from dashboard.tables.trace_browser import TraceBrowser


def test_all_templates_that_a_page_is_made_of_are_loaded_before_the_first_one():
    TraceBrowser.load_templates()
    environment = TraceBrowser(Path(os.devnull), threading.Event()).jinja_env
    assert environment.loader is not None
    assert environment.cache is not None
    used = set()
    for name in page_templates():
        source, _, _ = environment.loader.get_source(environment, name)
        used |= set(meta.find_referenced_templates(environment.parse(source)))
    assert used - {None} <= set(page_templates())  # None is computed: the template of a table
    assert set(page_templates()) <= {name for _, name in environment.cache}
