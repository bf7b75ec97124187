import json
import os
import shutil
import socket
import ssl
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
import trustme
from click.testing import CliRunner

from manage.cli.main import cli
from manage.doctor.checks import ask_proxy, check_datasette, check_mitmproxy, examine
from manage.supervision.announcement import Announcement
from metering.prices import BASE_VERSION, OWN_LABEL
from runtime import clock
from runtime.child_troubles import ChildTrouble, write_troubles
from runtime.heartbeat import Heartbeat
from runtime.installing import (
    DATASETTE_VERSIONS,
    MITMPROXY_NEWEST,
    MITMPROXY_OLDEST,
    MITMPROXY_TRIED,
)
from runtime.locks import ProcessLock
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.control.management import Management
from store.spool.format import RequestHead
from store.spool.writer import SpoolRun
from store.traces.database import PAGE_BYTES
from tests.connect_proxy import ConnectProxy
from tests.manage.conftest import PRICES
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
    """Do the handshakes of two connections; yield the address, and what came after them."""
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


@pytest.fixture(autouse=True)
def listens_where_nobody_does(monkeypatch, free_port):
    """A service may run where one listens by default."""
    monkeypatch.setenv("TAXIMETER_LISTEN", f"127.0.0.1:{free_port}")


@pytest.fixture
def look(data_dir, upstream_url, free_port):
    """Returns the findings of one check, by verdict."""

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


def test_all_is_well_before_and_after_the_first_start(run, upstream_url, monkeypatch, tmp_path):
    monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", upstream_url)
    result = run("doctor")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split()[1] for line in lines] == [
        "service", "python", "mitmproxy", "datasette", "data", "disk", "databases", "spool", "upstream", "prices", "clock",
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


def test_each_upstream_is_tried_and_an_endpoint_without_one_named(look, data_dir, upstream_url):
    with refusing_address() as closed:
        found = look("upstream", UPSTREAMS=f"eu={upstream_url}/eu,us={closed}")
        assert found.keys() == {"ok", "wrong"}
        assert found["wrong"].startswith(f"{closed} cannot be reached")
        assert "TAXIMETER_UPSTREAMS" in found["wrong"]
    with ControlDatabase(data_dir / "control.db") as control:
        management = Management(control, data_dir, upstreams={"old"})
        management.create_endpoint(management.local_caller(), "Team", "team", upstream="old")
    wrong = look("upstream")["wrong"]
    assert wrong.startswith("calls through team get 503: there is no upstream old; ")
    assert "`taximeter endpoints update team --upstream service`" in wrong


def test_an_upstream_elsewhere_is_tried_through_the_proxy(look, listener):
    place = ("127.0.0.1", listener.getsockname()[1])
    with ConnectProxy({"api.example.com": place}) as proxy:
        settings = {"UPSTREAM_URL": "http://api.example.com", "UPSTREAM_PROXY": proxy.url}
        assert "can be reached" in look("upstream", **settings)["ok"]
        assert proxy.asked == ["api.example.com:80"]
        settings["UPSTREAM_URL"] = "http://nowhere.example.com"
        wrong = look("upstream", **settings)["wrong"]
        assert f"{proxy.url} (TAXIMETER_UPSTREAM_PROXY) responds with 'HTTP/1.1 502" in wrong
    assert (
        "not tried"
        in look("upstream", UPSTREAM_URL="http://x.example", UPSTREAM_PROXY="https://p")["note"]
    )


def test_an_upstream_without_prices_is_said(look, tmp_path, upstream_url):
    eu = f"eu={upstream_url}"
    assert look("prices", UPSTREAMS=eu)["note"].startswith(
        "none for the upstream eu, so calls to it"
    )
    (tmp_path / "prices.toml").write_text(
        '[[models]]\nmatch = "*"\nupstream = "eu"\nstarts = 2026-01-01\nas_listed = true\n'
    )
    assert "ok" in look("prices", UPSTREAMS=eu, PRICES=str(tmp_path / "prices.toml"))


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
    assert "is not a directory" in look("data folder", DATA_DIR=str(tmp_path / "file"))["wrong"]


def test_a_disk_that_is_full_or_filling(look):
    assert "not kept" in look("disk", DISK_RESERVE="1000000TB")["wrong"]
    assert look("disk", DISK_RESERVE="0").keys() == {"ok"}


def test_another_program_on_our_address(look):
    with socket.create_server(("127.0.0.1", 0)) as other:
        host, port = other.getsockname()
        found = look("service", LISTEN=f"{host}:{port}")
    assert "--listen" in found["wrong"]


@pytest.fixture
def running(data_dir):
    """A service that runs here, as far as files say so, at an address of the test's choice."""
    lock = ProcessLock(data_dir / "up.lock")
    Heartbeat(pid=os.getpid(), beat_s=time.monotonic()).write(data_dir)

    def announce(front_url, **variables):
        listen = front_url.removeprefix("http://")
        environ = {"TAXIMETER_DATA_DIR": str(data_dir), "TAXIMETER_LISTEN": listen} | {
            f"TAXIMETER_{name}": text for name, text in variables.items()
        }
        Announcement.make(Settings.from_env(environ), environ).write(data_dir)

    yield announce
    lock.release()


WELL = answer(200, b'{"status":"ok","reasons":[]}')


@pytest.fixture
def front():
    """A server at the front door."""
    with Upstream() as front:
        front.otherwise = WELL
        yield front


def found(result):
    """Return the finding of each check, by its name."""
    return {each["check"]: each for each in json.loads(result.stdout)["checks"]}


def test_a_service_that_runs_is_asked_how_it_is(run, running, front, data_dir, upstream_url):
    running(front.url, UPSTREAM_URL=upstream_url)
    service = found(run("doctor", "--json"))["service"]
    assert service["verdict"] == "ok"
    assert f"process {os.getpid()}" in service["message"]
    assert front.url in service["message"]
    front.otherwise = answer(503, b'{"status":"failing","reasons":["the web\\u001b[2J"]}')
    service = found(run("doctor", "--json"))["service"]
    assert service["verdict"] == "wrong"
    assert "the web?[2J" in service["message"]
    front.otherwise = answer(200, b"<html>")
    assert "another program" in found(run("doctor", "--json"))["service"]["message"]


def test_a_process_that_is_down_is_quoted(run, running, front, data_dir, upstream_url):
    running(front.url, UPSTREAM_URL=upstream_url)
    front.otherwise = answer(503, b'{"status":"failing","reasons":["the web process is down"]}')
    trouble = ChildTrouble(
        name="web", status=1, deaths=1, pause_s=0.2, last_lines=("first", "no\x1b more files")
    )
    write_troubles(data_dir, [trouble])
    message = found(run("doctor", "--json"))["service"]["message"]
    assert message.endswith("the last line of the web process: no? more files")


def test_a_service_whose_recorder_or_front_door_is_silent(run, running, data_dir, upstream_url):
    with refusing_address() as url:
        running(url, UPSTREAM_URL=upstream_url)
        service = found(run("doctor", "--json"))["service"]
        assert (service["verdict"], "does not respond" in service["message"]) == ("wrong", True)
    Heartbeat.path(data_dir).unlink()
    assert "stopped updating its heartbeat" in found(run("doctor", "--json"))["service"]["message"]


def test_the_settings_of_the_service_are_looked_at_and_not_those_of_this_environment(
    run, running, front, upstream_url, monkeypatch
):
    running(front.url, UPSTREAM_URL=upstream_url, DISK_RESERVE="0")
    with refusing_address() as nobody:
        monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", nobody)
        monkeypatch.setenv("TAXIMETER_DISK_RESERVE", "1000000TB")
        monkeypatch.setenv("TAXIMETER_LISTEN", "no address at all")
        checks = found(run("doctor", "--json"))
    assert upstream_url in checks["upstream"]["message"]
    assert checks["upstream"]["verdict"] == checks["disk"]["verdict"] == "ok"
    assert checks["settings"]["verdict"] == "note"
    assert "TAXIMETER_DISK_RESERVE, TAXIMETER_UPSTREAM_URL" in checks["settings"]["message"]


@pytest.mark.parametrize("installed", [MITMPROXY_OLDEST, MITMPROXY_NEWEST])
def test_a_mitmproxy_that_was_tried_is_fine(installed):
    assert check_mitmproxy(installed, ask_proxy).verdict == "ok"


@pytest.mark.slow
def test_the_proxy_is_asked_about_a_mitmproxy_that_was_not_tried():
    finding = check_mitmproxy("12.99.0", ask_proxy)  # asks about the one that is there
    assert finding.verdict == "note"
    assert MITMPROXY_TRIED in (finding.advice or "")


def test_a_mitmproxy_with_which_the_proxy_does_not_start_is_wrong():
    finding = check_mitmproxy("12.2.0", lambda: "mitmproxy 12.2.0 differs")
    assert finding.verdict == "wrong"
    assert finding.message == "the proxy does not start: mitmproxy 12.2.0 differs"


def test_what_the_proxy_prints_before_it_ends_is_its_complaint(monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert ask_proxy() == "it ends with status 1"


def test_a_datasette_that_the_pages_are_not_known_to_work_with_is_a_note():
    assert check_datasette(DATASETTE_VERSIONS[-1]).verdict == "ok"
    finding = check_datasette("0.65.99")
    assert finding.verdict == "note"
    assert f"datasette=={DATASETTE_VERSIONS[-1]}" in (finding.advice or "")


def test_the_service_has_a_version_and_a_python_of_its_own(
    run, running, front, data_dir, upstream_url
):
    running(front.url, UPSTREAM_URL=upstream_url)
    announced = Announcement.read(data_dir)
    assert announced is not None
    replace(announced, version="9.9", python="3.11.7", sqlite="3.34.0").write(data_dir)
    checks = found(run("doctor", "--json"))
    assert checks["version"]["message"].startswith("the service is 9.9, this program ")
    assert "3.11.7 with SQLite 3.34.0 is too old" in checks["python"]["message"]


def test_a_service_that_says_nothing_of_itself(run, running, data_dir, upstream_url, monkeypatch):
    monkeypatch.setenv("TAXIMETER_UPSTREAM_URL", upstream_url)
    (data_dir / "service.json").write_text('{"base_url": "http://127.0.0.1:9999"}')
    service = found(run("doctor", "--json"))["service"]
    assert service["verdict"] == "note"
    assert "this environment" in service["advice"]


def test_where_nothing_runs_this_environment_is_looked_at_and_that_is_said(look):
    assert "this environment" in look("service")["note"]


@pytest.mark.parametrize(
    ("response", "verdict"),
    [(WELL, "ok"), (answer(200, b"<html>"), "wrong"), (answer(404, b"{}"), "wrong")],
)
def test_the_address_that_people_use_is_looked_at_too(
    run, running, front, upstream_url, response, verdict
):
    with Upstream() as public:
        public.otherwise = response
        everywhere = front.url.replace("127.0.0.1", "0.0.0.0")  # noqa: S104 - announced, not bound
        running(everywhere, UPSTREAM_URL=upstream_url, BASE_URL=public.url)
        assert found(run("doctor", "--json"))["address"]["verdict"] == verdict


def test_certificate_authorities_that_cannot_be_read_are_a_note_on_the_address(
    run, running, front, upstream_url, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    everywhere = front.url.replace("127.0.0.1", "0.0.0.0")  # noqa: S104 - announced, not bound
    running(everywhere, UPSTREAM_URL=upstream_url, BASE_URL="https://taximeter.example")
    address = found(run("doctor", "--json"))["address"]
    assert address["verdict"] == "note"
    assert "/nowhere/ca.pem: certificate authorities cannot be read" in address["advice"]


def test_what_the_service_writes_down_is_private_and_has_no_secrets(data_dir):
    environ = {
        "TAXIMETER_DATA_DIR": str(data_dir),
        "TAXIMETER_SMTP_URL": "smtp://user:geheim@localhost",
        "TAXIMETER_MAIL_FROM": "a@example.org",
        "TAXIMETER_GITHUB_CLIENT_ID": "id",
        "TAXIMETER_GITHUB_CLIENT_SECRET": "geheim",
        "TAXIMETER_CLIENT_MARK": "geheim",
        "TAXIMETER_API_KEY": "geheim",
        "PASSWORD": "geheim",
    }
    Announcement.make(Settings.from_env(environ), environ).write(data_dir)
    path = data_dir / "service.json"
    assert "geheim" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_recorder_that_is_still_at_work(look, data_dir):
    lock = ProcessLock(data_dir / "recorder.lock")
    assert "wait until it has ended" in look("service")["note"]
    lock.release()


def test_databases_that_are_damaged_or_of_another_version(look, data_dir, traces):
    assert "2 found" in look("databases")["ok"]
    migrations = "update _sqlite_migrations set name = 'm999_from_the_future' where id = 1"
    traces.connection.execute(migrations)
    assert "newer Taximeter" in look("databases")["wrong"]
    traces.connection.execute("delete from _sqlite_migrations where id = 1")
    assert "older version" in look("databases")["note"]
    earlier = "insert into _sqlite_migrations (name) values ('m002_find_the_calls_of_a_session')"
    traces.connection.execute(earlier)
    assert "is of an earlier version; start the program of commit" in look("databases")["wrong"]
    traces.connection.execute("delete from _sqlite_migrations")
    for path in data_dir.glob("control.db*"):
        path.unlink()
    (data_dir / "control.db").write_bytes(b"no database" * 100)
    assert "control.db" in look("databases")["wrong"]


def test_damage_inside_a_database_is_found(look, data_dir, traces, tmp_path):
    path = next(data_dir.glob("traces/*/traces.db"))
    traces.insert([make_entry(request_body=b"{}" * 5000)])
    traces.close()
    with path.open("r+b") as file:
        file.seek(PAGE_BYTES * 9)
        file.write(b"\xa5" * PAGE_BYTES * 6)
    found = look("databases")["wrong"]
    assert str(path) in found
    assert "restore a backup" in found


def test_databases_too_large_to_look_through_are_counted(look, monkeypatch, traces):
    monkeypatch.setattr("manage.doctor.database_checks.DAMAGE_S", -1.0)
    monkeypatch.setattr("manage.doctor.database_checks._STEPS", 1)
    assert "2 too large to look for damage here" in look("databases")["ok"]


def test_a_log_that_has_grown_large_is_a_note(look, monkeypatch, traces):
    monkeypatch.setattr("manage.doctor.database_checks.LARGE_LOG_BYTES", 1000)
    traces.insert([make_entry()])
    assert "write-ahead log" in look("databases")["note"]


def test_files_that_another_user_has_made_are_found(look, data_dir, traces):
    assert look("data folder").keys() == {"ok"}
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away; run this test as root")
    path = next(data_dir.glob("traces/*/traces.db"))
    os.chown(path, 12345, -1)
    found = look("data folder")["wrong"]
    assert str(path) in found
    assert f"chown -R {os.geteuid()} {data_dir}" in found


def test_prices_that_nobody_looked_up_for_long_are_a_note(look, monkeypatch):
    assert look("prices").keys() == {"ok"}
    later = clock.now() + timedelta(days=400)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert "days ago" in look("prices")["note"]


def test_calls_that_wait_and_files_that_could_not_be_read(look, data_dir):
    assert look("spool") == {"ok": "nothing waiting; None"}
    spool_run = SpoolRun(data_dir / "spool")
    head = RequestHead(
        entry_id=clock.new_id(), created_at=clock.format_ms(clock.now()), organization_id="org",
        proxy_endpoint_id="e", slug="default", metadata_only=False, request_bytes=2,
        request_body="whole",
    )  # fmt: skip
    spool_run.create(head, b"{}").close()
    spool_run.close()
    assert "1 call waiting" in look("spool")["note"]
    Heartbeat(pid=os.getpid(), beat_s=time.monotonic()).write(data_dir)
    assert look("spool").keys() == {"ok"}
    Heartbeat(pid=os.getpid(), beat_s=time.monotonic(), stuck_organizations=1).write(data_dir)
    assert "cannot be written" in look("spool")["wrong"]
    Heartbeat(pid=os.getpid(), beat_s=time.monotonic()).write(data_dir)
    (data_dir / "spool" / "unreadable").mkdir()
    (data_dir / "spool" / "unreadable" / "x.done").touch()
    assert "1 file " in look("spool")["wrong"]


def test_a_price_file_is_read_as_the_recorder_reads_it(look, tmp_path):
    built_in = f"({OWN_LABEL} 2026-11-21, {BASE_VERSION})"
    assert built_in in look("prices")["ok"]
    prices = tmp_path / "prices.toml"
    prices.write_text("[[models]]\nmatch = 3")
    assert "prices.toml" in look("prices", PRICES=str(prices))["wrong"]
    prices.write_text(PRICES)
    assert (
        f"prices.toml, then the built-in lists {built_in}"
        in look("prices", PRICES=str(prices))["ok"]
    )


def test_a_clock_that_cannot_be_right(look, traces, monkeypatch):
    now = clock.now()
    assert look("clock").keys() == {"ok"}
    monkeypatch.setattr(clock, "now", lambda: datetime(1970, 1, 2, tzinfo=UTC))
    assert "cannot be right" in look("clock")["wrong"]
    monkeypatch.setattr(clock, "now", lambda: now)
    traces.insert([make_entry(created_at=clock.format_ms(now + timedelta(hours=1)))])
    assert "the clock is or was wrong" in look("clock")["wrong"]
