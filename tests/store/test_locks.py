import os

import pytest

from store.locks import LockHeldError, ProcessLock


def test_a_lock_has_one_holder_and_names_it(tmp_path):
    lock = ProcessLock(tmp_path / "new" / "x.lock")
    with pytest.raises(LockHeldError) as refused:
        ProcessLock(tmp_path / "new" / "x.lock")
    assert refused.value.pid == os.getpid()
    lock.release()
    ProcessLock(tmp_path / "new" / "x.lock").release()
