"""A proxy node, a node with the pages and a second copy are one service, over a real Redis server."""

import re
import secrets
from contextlib import closing

import httpx
import psutil
import pytest

from addon.headers import fingerprint
from dashboard.visitors import cookie_name
from extensions.cluster import server
from extensions.cluster.keys import COPIES
from extensions.cluster.page_nodes import read_node
from extensions.cluster.tests.crashes.node_cases import end_proxies
from extensions.cluster.tests.crashes.scene import Case, Scene
from runtime import clock
from store.control import activity_log, sessions
from store.control.activity_log import AuditEntry
from store.control.database import FINGERPRINT_KEY, ControlDatabase
from tests.live import command
from tests.live.service import API_KEY, Endpoint, Service
from tests.redis_server import RedisServer
from tests.store.stored_words import find_word
from tests.upstream import wait_until

pytestmark = pytest.mark.live
WORD = "quokkaplonkify"
MESSAGE = b'{"model": "haiku", "messages": [{"role": "user", "content": "%s"}]}' % WORD.encode()


def test_a_call_through_the_proxy_node_is_the_same_entry_in_both_copies(nodes):
    endpoint = nodes.endpoint()
    sent = b'{"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "hi"}]}'
    response = endpoint.send(endpoint.message(sent))
    assert response.status == 200
    row = nodes.rows(endpoint.slug, 2)[-1]
    assert row["request_body"] == sent.decode()
    assert row["response_body"] == response.body.decode()
    assert list(nodes.proxy.data_dir.glob("traces/*/*")) == []


def test_a_credential_has_the_fingerprint_of_the_key_that_the_web_node_has_now(nodes):
    """It gets another one with a backup, and a proxy node may have begun with one of its own."""
    endpoint = nodes.endpoint()
    key = secrets.token_bytes(32)
    with ControlDatabase(nodes.web.data_dir / "control.db") as control:
        organization_id = control.get_local_organization().id
        with control.transaction() as db:
            db.execute("update secrets set value = ? where name = ?", (key, FINGERPRINT_KEY))
    expected = fingerprint(API_KEY.encode(), key, organization_id)

    def has_it() -> bool:
        endpoint.send()
        return bool(nodes.web.rows(endpoint.slug)[-1]["credential_hmac"] == expected)

    wait_until(has_it, "a call with the fingerprint that the web node would give it")


def test_a_deleted_slug_stops_on_the_proxy_node(nodes):
    endpoint = nodes.endpoint()
    nodes.web.delete_endpoint(endpoint.slug)
    wait_until(lambda: endpoint.send().status == 404, "the end of the slug on the proxy node")


def test_a_node_without_the_role_forwards_nothing(nodes):
    endpoint = Endpoint(nodes.web, nodes.upstream, "default")
    response = endpoint.send()
    assert (response.status, response.header("x-taximeter-error")) == (404, "not_a_proxy_node")


def test_an_erasure_reaches_a_copy_that_was_killed_between_order_and_execution(nodes):
    endpoint = nodes.endpoint()
    endpoint.send(endpoint.message(MESSAGE))
    nodes.rows(endpoint.slug, 2)
    supervisor = psutil.Process(nodes.copy.pid)
    supervisor.suspend()  # so that nobody starts them again meanwhile
    try:
        killed = nodes.copy.kill9("cluster", "recorder")
        with closing(server.connect(nodes.redis.url)) as client:  # as ten seconds later
            client.xgroup_delconsumer(COPIES, "copy", read_node(nodes.copy.data_dir) or "")
        done = command.call_here(
            ("erase", "--endpoint", endpoint.slug, "--yes"), command.environment(nodes.web)
        )
        assert done.returncode == 0, done.stderr
        assert "Erased 2 calls in the copy main" in done.stdout
        assert re.search(r"Still .* in the copy copy .*, when that node is back", done.stdout)
        assert find_word(nodes.web.data_dir, WORD) == []
        assert find_word(nodes.copy.data_dir, WORD) != []
        assert "still to be erased in the copy copy" in read_settings_page(nodes.web)
    finally:
        supervisor.resume()
    nodes.copy.wait_restarted(killed)
    nodes.copy.wait_until(
        lambda: find_word(nodes.copy.data_dir, WORD) == [], "the erasing of the other copy"
    )
    with ControlDatabase(nodes.web.data_dir / "control.db") as control:

        def read_log() -> list[AuditEntry]:
            with control.reading() as db:
                return list(activity_log.read(db, control.get_local_organization().id))

        def find_erased() -> set[object]:
            return {
                each.details["copy"]
                for each in read_log()
                if (each.action, each.details.get("calls")) == ("erase.copy", "2")
            }

        wait_until(lambda: find_erased() == {"main", "copy"}, "what was erased in the log")


def _restart_redis(scene: Scene, redis: RedisServer) -> None:
    redis.kill()
    scene.load.wait_for(10)
    redis.start()


@pytest.mark.slow
def test_under_load_the_death_of_any_process_loses_doubles_and_disturbs_nothing(nodes):
    """The short form of extensions.cluster.tests.crashes."""
    cases = [
        Case("kill -9 of the proxy", end_proxies),
        Case("Redis restarted", lambda scene: _restart_redis(scene, nodes.redis), is_away=True),
    ]
    recorders = [nodes.web, nodes.copy]
    with Scene([nodes.proxy], recorders, nodes.upstream, rate=20.0, lasts_s=0.3) as scene:
        for case in cases:
            verdict = scene.run(case, calls=12).verdict
            assert verdict.wrong == [], case.name
            assert (verdict.lost, verdict.double, verdict.disturbed) == ([], [], []), case.name
            assert verdict.calls >= 12
        assert scene.verify() == []


def read_settings_page(home: Service) -> str:
    """Return the settings as the local user sees them."""
    with ControlDatabase(home.data_dir / "control.db") as control:
        user_id = control.find_user(None)
        assert user_id is not None
        with control.transaction() as db:
            session = sessions.create(db, user_id, clock.now())
    cookie = {"cookie": f"{cookie_name(f'http://{home.host}')}={session}"}
    page = httpx.get(f"http://{home.host}/settings/data", headers=cookie, timeout=60)
    assert page.status_code == 200
    return page.text
