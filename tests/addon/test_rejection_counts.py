import errno

from addon.destination import Destination
from store.spool import reader
from store.spool.format import REJECTIONS
from tests.addon.endpoints import ENDPOINT
from tests.addon.spooling import fail


def test_rejections_that_could_not_be_written_are_kept_for_the_next_time(
    spooler, tmp_path, monkeypatch
):
    spooler.rejections.count(ENDPOINT, Destination.MESSAGES)
    with monkeypatch.context() as failing:
        failing.setattr("store.spool.writer.Path.write_bytes", fail(errno.EIO))
        spooler.flush_rejections()
    assert spooler.troubles.current is not None
    spooler.flush_rejections()
    assert len(list((tmp_path / "spool").glob("*/*~rejections.done"))) == 1


def test_rejections_are_summed_and_flushed_once(spooler, tmp_path):
    for _ in range(3):
        spooler.rejections.count(ENDPOINT, Destination.MESSAGES)
    spooler.flush_rejections()
    spooler.flush_rejections()
    (waiting,) = reader.find_waiting(tmp_path / "spool")
    assert waiting.owner == REJECTIONS
    (rejection,) = reader.read_rejections(waiting.path)
    assert (rejection.slug, rejection.bucket, rejection.count) == ("default", "messages", 3)


def test_rejections_by_budgets_are_counted_apart(spooler, tmp_path):
    spooler.rejections.count(ENDPOINT, Destination.MESSAGES)
    spooler.rejections.count_over_budget(ENDPOINT)
    spooler.flush_rejections()
    (waiting,) = reader.find_waiting(tmp_path / "spool")
    counted = {each.bucket: each.count for each in reader.read_rejections(waiting.path)}
    assert counted == {"messages": 1, "budget": 1}
