"""A backup while calls come: each that had ended before is in it, once and with its exact bodies."""

import threading
from contextlib import closing

import pytest

from extensions.credentials_in_calls.search import SecretSearch
from store.backup import contents, copying
from store.backup.backup import make_backup
from store.backup.restore import restore_backup
from store.control.database import ControlDatabase
from store.spool.format import Ending, ResponseHead
from store.spool.writer import SpoolRun
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.recorder import ingesters
from tests.store.spool.heads import make_head

ORGANIZATIONS = ("a", "b")
ANSWER = (
    b'{"type":"message","model":"claude-haiku-4-5","usage":{"input_tokens":%d,"output_tokens":2}}'
)
ROUNDS = 2


def make_ingester(data_dir):
    return ingesters.make_ingester(
        data_dir,
        make_work=lambda databases: [
            SecretSearch(data_dir, data_dir / "control.db", databases, lambda: 0.0)
        ],
    )


class Traffic:
    """A proxy and a recorder at work, in two threads."""

    def __init__(self, data_dir):
        self.data_dir = data_dir
        self.ended = 0
        self._run = SpoolRun(data_dir / "spool")
        self._stop = threading.Event()
        self._some = threading.Condition()
        self._threads = [threading.Thread(target=work) for work in (self._call, self._record)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._run.close()

    def wait_for(self, count):
        with self._some:
            assert self._some.wait_for(lambda: self.ended >= count, timeout=60)

    def begin(self, number):
        body = b'{"model":"haiku","messages":[{"role":"user","content":"%d"}]}' % number
        owner = ORGANIZATIONS[number % 2]
        head = make_head(f"call-{number:06}", organization_id=owner, request_bytes=len(body))
        file = self._run.create(head, body)
        file.write_response_head(ResponseHead(status_code=200, content_type="application/json"), 1)
        file.write_chunk(ANSWER % number, 2)
        return file

    def end(self, file, number):
        file.finish(Ending(outcome="complete", response_bytes=len(ANSWER % number)), 3)
        with self._some:
            self.ended = number + 1
            self._some.notify_all()

    def _call(self):
        before = self.begin(0)
        number = 0
        while not self._stop.is_set():
            after = self.begin(number + 1)  # so there is always one in flight
            self.end(before, number)
            before, number = after, number + 1
            self._stop.wait(0.0005)
        self.end(before, number)

    def _record(self):
        with closing(make_ingester(self.data_dir)) as ingester:
            while not self._stop.is_set():
                ingester.run_round()
                ingester.work_in_background()


def read_calls(data_dir):
    """Let the recorder take what waited; return outcome and bodies of each call by its entry id."""
    with closing(make_ingester(data_dir)) as ingester:
        while ingester.run_round().handled:
            pass
    assert not [path for path in data_dir.glob("spool/*/*") if path.suffix in (".open", ".done")]
    found = {}
    for organization in ORGANIZATIONS:
        with TraceDatabase(trace_path(data_dir, organization)) as traces:
            assert list(traces.verify()) == []
            for usage_id, entry_id, outcome in traces.connection.execute(
                "select id, entry_id, outcome from usage"
            ).fetchall():
                assert entry_id not in found
                found[entry_id] = (outcome, traces.read_bodies(usage_id))
    return found


@pytest.fixture
def data_dir(tmp_path):
    data_dir = tmp_path / "data"
    with ControlDatabase(data_dir / "control.db") as control:
        control.set_up()
    return data_dir


@pytest.mark.slow
def test_each_call_that_had_ended_is_in_a_backup_that_is_made_meanwhile(
    data_dir, tmp_path, monkeypatch
):
    monkeypatch.setattr(copying, "STEP_PAGES", 8)
    waited = 0
    with Traffic(data_dir) as traffic:
        for number in range(ROUNDS):
            traffic.wait_for(traffic.ended + 60)
            ended = traffic.ended
            waited += make_backup(data_dir, tmp_path / "backup").waiting
            target = tmp_path / f"restored-{number}"
            target.mkdir()
            restore_backup(tmp_path / "backup", target)
            calls = read_calls(target)
            for call in range(ended):
                outcome, bodies = calls[f"call-{call:06}"]
                assert outcome == "complete"
                assert bodies.request.endswith(b'"content":"%d"}]}' % call)
                assert bodies.response == ANSWER % call
            for entry_id, (outcome, bodies) in calls.items():
                assert outcome in ("complete", "proxy_restarted")
                assert b'"%d"' % int(entry_id[5:]) in bodies.request
    assert waited > 0


@pytest.mark.parametrize("when", ["listed", "copied"])
def test_a_call_that_is_recorded_meanwhile_is_there_once(data_dir, tmp_path, monkeypatch, when):
    run = SpoolRun(data_dir / "spool")
    traffic = Traffic(data_dir)
    traffic.end(traffic.begin(0), 0)
    traffic.end(traffic.begin(1), 1)

    def record():
        with closing(make_ingester(data_dir)) as ingester:
            while ingester.run_round().handled:
                pass

    if when == "listed":
        list_spool = contents.list_spool

        def list_and_record(folder):
            found = list_spool(folder)
            record()
            return found

        monkeypatch.setattr(contents, "list_spool", list_and_record)
    else:
        list_organizations = contents.list_organizations

        def record_and_list(folder):
            record()
            return list_organizations(folder)

        monkeypatch.setattr(contents, "list_organizations", record_and_list)
    report = make_backup(data_dir, tmp_path / "backup")
    assert report.waiting == (0 if when == "listed" else 2)
    (tmp_path / "restored").mkdir()
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    assert sorted(read_calls(tmp_path / "restored")) == ["call-000000", "call-000001"]
    traffic._run.close()
    run.close()


def test_a_call_that_ends_while_it_is_copied_is_there_once(data_dir, tmp_path, monkeypatch):
    traffic = Traffic(data_dir)
    file = traffic.begin(0)
    list_spool = contents.list_spool

    def list_and_end(folder):
        found = list_spool(folder)
        traffic.end(file, 0)
        return found

    monkeypatch.setattr(contents, "list_spool", list_and_end)
    assert make_backup(data_dir, tmp_path / "backup").waiting == 1
    (tmp_path / "restored").mkdir()
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    ((entry_id, (outcome, _)),) = read_calls(tmp_path / "restored").items()
    assert (entry_id, outcome) == ("call-000000", "complete")
    traffic._run.close()
