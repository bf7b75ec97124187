"""The one page that says what runs and how to connect a client."""

from collections.abc import Sequence
from html import escape

from store.control import ProxyEndpoint
from store.heartbeat import Heartbeat
from store.settings import Settings

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Taximeter</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 46rem; margin: 3rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884; vertical-align: top; }}
code, pre {{ font: .9rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }}
pre {{ padding: .7rem 1rem; background: #8882; border-radius: .4rem; }}
</style>
<h1>Taximeter</h1>
<p>Calls to the messages API go through unchanged, and each is written down: tokens, cost, time, full text.</p>
<h2>What runs</h2>
<table>
<tr><th scope="row">Front door<td><code>{base_url}</code>
<tr><th scope="row">Upstream<td><code>{upstream}</code>
<tr><th scope="row">Streaming<td>{streaming}
<tr><th scope="row">Recorder<td>{recorder}
</table>
<h2>Proxy endpoints</h2>
{endpoints}
<p>Make another with <code>taximeter endpoints create NAME</code>. Health for scripts: <a href="/healthz">/healthz</a>.</p>
</html>
"""


def render_home(
    settings: Settings, endpoints: Sequence[ProxyEndpoint], heartbeat: Heartbeat | None
) -> str:
    lines = "".join(
        f"<p>{escape(endpoint.name)}</p><pre>export ANTHROPIC_BASE_URL="
        f"{escape(endpoint_url(settings, endpoint.slug))}</pre>"
        for endpoint in endpoints
    )
    return _PAGE.format(
        base_url=escape(settings.base_url),
        upstream=escape(str(settings.upstream_url)),
        streaming=escape(settings.streaming),
        recorder=escape(_describe(heartbeat)),
        endpoints=lines or "<p>There is none yet.</p>",
    )


def endpoint_url(settings: Settings, slug: str) -> str:
    """What a client is configured with."""
    return f"{settings.base_url}/proxy/{slug}"


def _describe(heartbeat: Heartbeat | None) -> str:
    if heartbeat is None or not heartbeat.is_fresh:
        return "not running; calls wait in the spool"
    if heartbeat.stuck_organizations:
        return f"running; {heartbeat.waiting} calls wait for a database that cannot be written"
    return f"running; {heartbeat.waiting} calls wait to be stored"
