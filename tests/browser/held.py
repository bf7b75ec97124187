"""A call that is in flight for as long as a test wants."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.browser.site import Site
from tests.live.messages import Answer, text
from tests.upstream import Gate

STORY = Answer(content=[text("It was the best of times, it was the worst of times. " * 8)])

HELD_S = 600.0  # as long as several pages may take that are looked at meanwhile


@contextmanager
def held_call(
    site: Site, words: str, *headers: tuple[str, str], slug: str = "default"
) -> Iterator[Gate]:
    """A call that is in flight until the block ends. Its response stands still after its first words; the
    gate that is given lets it go on to the end of its text."""
    gate, before_end = Gate(), Gate()
    site.upstream.choose = lambda _request: STORY.held_after_text(gate, before_end)
    body = {
        "model": "claude-opus-5-5",
        "stream": True,
        "messages": [{"role": "user", "content": words}],
    }
    calling = threading.Thread(
        target=site.call,
        args=(json.dumps(body).encode(), slug, *headers),
        kwargs={"timeout_s": HELD_S},
    )
    calling.start()
    try:
        gate.wait_reached()
        yield gate
    finally:
        gate.open()
        before_end.open()
        calling.join()
