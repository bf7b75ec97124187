from itertools import chain

import pytest

from extensions.credentials_in_calls.findings import count_in_calls
from extensions.credentials_in_calls.search import PAUSE_S
from runtime import extensions
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.spool.writer import SpoolRun
from store.traces.paths import trace_path
from tests.recorder.conftest import Clock
from tests.recorder.ingesters import make_ingester
from tests.recorder.test_ingest import spool_call

BODY = b'{"messages": [{"role": "user", "content": "AKIAQ2W3E4R5T6Y7U8I9"}]}'


@pytest.mark.parametrize("switch", ["on", "off"])
def test_the_recorder_looks_for_credentials_in_the_background(tmp_path, switch):
    with ControlDatabase(tmp_path / "control.db") as control:
        control.set_up()
    environ = {"TAXIMETER_DATA_DIR": str(tmp_path), "TAXIMETER_CREDENTIAL_SEARCH": switch}
    settings, clock = Settings.from_env(environ), Clock()

    def make_work(databases):
        added = extensions.call().recorder_work(
            settings=settings, databases=databases, clock_s=clock
        )
        return list(chain(*added))

    ingester = make_ingester(tmp_path, clock_s=clock, make_work=make_work)
    run = SpoolRun(settings.spool_path)
    spool_call(run, "e1", body=BODY)
    ingester.run_round()
    clock.now_s += PAUSE_S
    ingester.work_in_background()
    ingester.close()
    run.close()
    assert count_in_calls(trace_path(tmp_path, "a"), [1, 2]) == ({1: 1} if switch == "on" else {})
