from runtime.files import replace_private
from runtime.heartbeat import Heartbeat


def test_a_file_is_replaced_and_readable_by_its_owner_only(tmp_path):
    path = tmp_path / "service.json"
    path.write_bytes(b"old")
    path.chmod(0o644)
    replace_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_lends_nobody_its_mode(tmp_path):
    (tmp_path / "service.new").write_bytes(b"half")
    (tmp_path / "service.new").chmod(0o666)
    replace_private(tmp_path / "service.json", b"new")
    assert (tmp_path / "service.json").stat().st_mode & 0o777 == 0o600


def test_the_heartbeat_is_readable_by_its_owner_only(tmp_path):
    Heartbeat(pid=1, beat_s=1.0).write(tmp_path)
    assert Heartbeat.path(tmp_path).stat().st_mode & 0o777 == 0o600
