import json
import os
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
import trustme
from click.testing import CliRunner

from manage.cli import cli
from manage.doctor import examine
from store import clock
from store.heartbeat import Heartbeat
from store.locks import ProcessLock
from store.settings import Settings
from store.spool import RequestHead, SpoolRun
from tests.store.traffic import make_entry
from tests.upstream import PATIENCE_S, Upstream, answer, refusing_address


@pytest.fixture
def listener():
    """Takes connections and says nothing, which is all that is asked of an upstream here."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        yield listener


@pytest.fixture
def upstream_url(listener):
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def tls_listener(authority):
    """Does the handshakes of two connections; gives its address, and what came after them."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    received = []

    def serve(listener):
        for _ in range(2):
            connection, _ = listener.accept()
            with connection, suppress(ssl.SSLError, OSError):
                connection.settimeout(PATIENCE_S)
                with tls.wrap_socket(connection, server_side=True) as secured:
                    received.append(secured.recv(100))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        thread = threading.Thread(target=serve, args=[listener])
        thread.start()
        yield f"https://localhost:{listener.getsockname()[1]}", received
        thread.join(PATIENCE_S)


@pytest.fixture
def free_port():
    with refusing_address() as url:
        yield urlsplit(url).port


@pytest.fixture
def look(data_dir, upstream_url, free_port):
    """What is found of one check, by verdict."""

    def look(check, **settings):
        environ = {
            "DATA_DIR": str(data_dir),
            "UPSTREAM_URL": upstream_url,
            "LISTEN": f"127.0.0.1:{free_port}",
        } | settings
        found = examine(
            Settings.from_env({f"TAXIMETER_{name}": text for name, text in environ.items()})
        )
        return {
            finding.verdict: f"{finding.message}; {finding.advice}"
            for finding in found
            if finding.check == check
        }

    return look


def test_all_is_well_before_and_after_the_first_start(
    run, upstream_url, free_port, monkeypatch, tmp_path
):
    monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", upstream_url)
    monkeypatch.setenv("TAXIMETER_LISTEN", f"127.0.0.1:{free_port}")
    result = run("doctor")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split()[1] for line in lines] == [
        "python", "data", "disk", "service", "databases", "spool", "upstream", "prices", "clock",
    ]  # fmt: skip
    assert "`taximeter up` starts it" in result.stdout
    monkeypatch.setenv("TAXIMETER_DATA_DIR", str(tmp_path / "none"))
    fresh = CliRunner().invoke(cli, ["doctor", "--json"])
    assert json.loads(fresh.stdout)["ok"] is True
    assert not (tmp_path / "none").exists()


def test_as_json_it_is_one_document_and_wrong_is_exit_status_1(run, monkeypatch):
    with refusing_address() as url:
        monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", url)
        result = run("doctor", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["ok"] is False
    (wrong,) = [each for each in document["checks"] if each["verdict"] == "wrong"]
    assert set(wrong) == {"check", "verdict", "message", "advice"}
    assert wrong["check"] == "upstream"


def test_a_bad_setting_is_a_finding(run, monkeypatch):
    monkeypatch.setenv("TAXIMETER_STREAMING", "fast")
    result = run("doctor")
    assert result.exit_code == 1
    assert result.stdout.startswith("wrong  settings")


def test_nothing_is_sent_to_the_upstream(look, listener):
    assert "can be reached" in look("upstream")["ok"]
    connection, _ = listener.accept()
    with connection:
        assert connection.recv(1) == b""


def test_an_upstream_that_refuses_or_has_no_name(look):
    with refusing_address() as url:
        assert "refused" in look("upstream", UPSTREAM_URL=url)["wrong"]
    named = look("upstream", UPSTREAM_URL="http://nowhere.invalid")["wrong"]
    assert "TAXIMETER_UPSTREAM_URL" in named


def test_the_upstream_s_certificate_is_checked_as_the_proxy_does(look, monkeypatch, tmp_path):
    authority = trustme.CA()
    with tls_listener(authority) as (url, received):
        assert "SSL_CERT_FILE" in look("upstream", UPSTREAM_URL=url)["wrong"]
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert "can be reached" in look("upstream", UPSTREAM_URL=url)["ok"]
    assert received in ([], [b""])


def test_a_data_folder_that_others_can_read(look, data_dir):
    data_dir.chmod(0o755)
    assert f"chmod -R go= {data_dir}" in look("data folder")["wrong"]


def test_a_data_folder_that_is_a_file(look, data_dir, tmp_path):
    (tmp_path / "file").touch()
    assert "is no folder" in look("data folder", DATA_DIR=str(tmp_path / "file"))["wrong"]


def test_a_disk_that_is_full_or_filling(look):
    assert "not kept" in look("disk", DISK_RESERVE="1000000TB")["wrong"]
    assert look("disk", DISK_RESERVE="0").keys() == {"ok"}


def test_another_program_on_our_address(look):
    with socket.create_server(("127.0.0.1", 0)) as other:
        host, port = other.getsockname()
        found = look("service", LISTEN=f"{host}:{port}")
    assert "--listen" in found["wrong"]


def test_a_service_that_runs(look, data_dir):
    lock = ProcessLock(data_dir / "up.lock")
    with Upstream() as front:
        assert "no sign of life" in look("service", BASE_URL=front.url)["wrong"]
        Heartbeat(pid=os.getpid(), beat_s=time.monotonic()).write(data_dir)
        front.otherwise = answer(200, b'{"status":"ok","reasons":[]}')
        assert f"process {os.getpid()}" in look("service", BASE_URL=front.url)["ok"]
        front.otherwise = answer(503, b'{"status":"failing","reasons":["the web\\u001b[2J"]}')
        assert "the web?[2J" in look("service", BASE_URL=front.url)["wrong"]
        front.otherwise = answer(200, b"<html>")
        assert "something else" in look("service", BASE_URL=front.url)["wrong"]
    with refusing_address() as url:
        assert "does not answer" in look("service", BASE_URL=url)["note"]
    lock.release()
    assert "not running" in look("service")["note"]


def test_a_recorder_that_is_still_at_work(look, data_dir):
    lock = ProcessLock(data_dir / "recorder.lock")
    assert "wait until it has ended" in look("service")["note"]
    lock.release()


def test_databases_that_are_damaged_or_of_another_version(look, data_dir, traces):
    assert "all 2" in look("databases")["ok"]
    migrations = "update _sqlite_migrations set name = 'm999_from_the_future' where id = 1"
    traces.connection.execute(migrations)
    assert "newer version" in look("databases")["wrong"]
    traces.connection.execute("delete from _sqlite_migrations where id = 1")
    assert "older version" in look("databases")["note"]
    for path in data_dir.glob("control.db*"):
        path.unlink()
    (data_dir / "control.db").write_bytes(b"no database" * 100)
    assert "control.db" in look("databases")["wrong"]


def test_calls_that_wait_and_files_that_could_not_be_read(look, data_dir):
    assert look("spool") == {"ok": "nothing waits; None"}
    spool_run = SpoolRun(data_dir / "spool")
    head = RequestHead(
        entry_id=clock.new_id(), created_at=clock.format_ms(clock.now()), organization_id="org",
        proxy_endpoint_id="e", slug="default", metadata_only=False, request_bytes=2,
        request_body="whole",
    )  # fmt: skip
    spool_run.create(head, b"{}").close()
    spool_run.close()
    assert "1 calls wait" in look("spool")["note"]
    Heartbeat(pid=os.getpid(), beat_s=time.monotonic()).write(data_dir)
    assert look("spool").keys() == {"ok"}
    Heartbeat(pid=os.getpid(), beat_s=time.monotonic(), stuck_organizations=1).write(data_dir)
    assert "cannot be written" in look("spool")["wrong"]
    Heartbeat(pid=os.getpid(), beat_s=time.monotonic()).write(data_dir)
    (data_dir / "spool" / "unreadable").mkdir()
    (data_dir / "spool" / "unreadable" / "x.done").touch()
    assert "1 files" in look("spool")["wrong"]


def test_a_price_file_is_read_as_the_recorder_reads_it(look, tmp_path):
    assert look("prices").keys() == {"ok"}
    prices = tmp_path / "prices.toml"
    prices.write_text("[[models]]\nmatch = 3")
    assert "prices.toml" in look("prices", PRICES=str(prices))["wrong"]
    prices.write_text(
        """
        [[models]]
        match = "claude-future-*"
        starts = 2026-01-01
        input = 2
        output = 10
        cache_read = 0.2
        cache_write_5m = 2.5
        cache_write_1h = 4
        """
    )
    assert "prices.toml" in look("prices", PRICES=str(prices))["ok"]


def test_a_clock_that_cannot_be_right(look, traces, monkeypatch):
    now = datetime.now(UTC)
    assert look("clock").keys() == {"ok"}
    monkeypatch.setattr(clock, "now", lambda: datetime(1970, 1, 2, tzinfo=UTC))
    assert "cannot be right" in look("clock")["wrong"]
    monkeypatch.setattr(clock, "now", lambda: now)
    traces.insert([make_entry(created_at=clock.format_ms(now + timedelta(hours=1)))])
    assert "the clock was or is wrong" in look("clock")["wrong"]
