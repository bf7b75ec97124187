import os
from collections.abc import Iterator

import pytest

from manage.supervision.proxy_workers import ProxyWorkers
from runtime.worker_board import WorkerBoard


@pytest.fixture
def workers() -> Iterator[ProxyWorkers]:
    """The workers of a service, none of which is started."""
    read_fd, write_fd = os.pipe()
    workers = ProxyWorkers(2, 0, None, read_fd)
    yield workers
    workers.close()
    os.close(read_fd)
    os.close(write_fd)


def test_a_worker_loads_gently_only_where_another_one_serves(workers):
    first, second = workers.children
    other = WorkerBoard(workers.board_fd, 1, 2)
    assert first.find_environ() == second.find_environ() == {}
    other.begin_serving()
    assert first.find_environ() == {"TAXIMETER_LOAD_GENTLY": "1"}
    second.on_end()
    assert first.find_environ() == {}
