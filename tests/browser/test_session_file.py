"""A session that was exported as a file is opened from the disk, where there is no service."""

import json

from tests.live.messages import Answer, text

WORDS = "Explain <b onclick=alert(1)>this</b> & that"
FETCH = """
fetch(arguments[0]).then((answer) => answer.text()).then(done);
"""


def test_an_exported_session_opens_from_the_disk(site, signed_in, tmp_path):
    site.upstream.choose = lambda request: Answer(content=[text("So **it** is.")]).script(
        streamed=b'"stream"' in request.body
    )
    for words in (WORDS, "And this?"):
        body = {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": words}]}
        headers = ("x-claude-code-session-id", "exported")
        assert site.call(json.dumps(body).encode(), "default", headers).status == 200
    site.count_calls()
    signed_in.open("/sessions/exported")
    (address,) = [
        each.get_attribute("href")
        for each in signed_in.driver.find_elements("css selector", "a[href$='bodies=yes']")
    ]
    file = tmp_path / "session.html"
    file.write_text(signed_in.run_async(FETCH, address))

    for width, scheme in ((1280, "light"), (360, "dark")):
        signed_in.resize(width, 800)
        signed_in.prefer(scheme)
        signed_in.open(file.as_uri())
        signed_in.screenshot(f"session-file-{width}-{scheme}")
        assert signed_in.faults() == []
        assert signed_in.run("return document.scripts.length") == 0
    signed_in.driver.find_element("css selector", ".words summary").click()
    signed_in.see(WORDS)
    signed_in.see("So it is.")
    signed_in.screenshot("session-file-open")
    assert signed_in.complaints() == []
