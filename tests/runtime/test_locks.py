import os

import pytest

from runtime.locks import Holder, LockHeldError, ProcessLock, find_holder


def test_a_lock_has_one_holder_and_names_it(tmp_path):
    lock = ProcessLock(tmp_path / "new" / "x.lock")
    with pytest.raises(LockHeldError) as refused:
        ProcessLock(tmp_path / "new" / "x.lock")
    assert refused.value.pid == os.getpid()
    lock.release()
    ProcessLock(tmp_path / "new" / "x.lock").release()


def test_a_holder_can_be_found_without_taking_the_lock(tmp_path):
    path = tmp_path / "up.lock"
    assert find_holder(path) is None
    assert not path.exists()
    lock = ProcessLock(path)
    assert find_holder(path) == Holder(os.getpid())
    path.write_text("?")
    assert find_holder(path) == Holder(None)
    lock.release()
    assert find_holder(path) is None
