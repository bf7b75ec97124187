import stat
from pathlib import Path

import certifi
import pytest

from addon.forward.trust import SYSTEM_FILES, TrustFiles, read_roots


@pytest.fixture
def files(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = TrustFiles.write({}, b"AUTHORITY OF THE RUN")
    yield found
    found.remove()


def test_the_bundle_has_the_roots_and_the_authority_of_the_run(files):
    roots, bundle = files.roots.read_bytes(), files.bundle.read_bytes()
    assert Path(certifi.where()).read_bytes() in roots
    for path in map(Path, SYSTEM_FILES):
        if path.is_file():
            assert path.read_bytes() in roots
            break
    assert b"AUTHORITY OF THE RUN" not in roots
    assert bundle == roots + b"\nAUTHORITY OF THE RUN"
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700


def test_both_go_with_their_folder(files):
    files.remove()
    assert not files.folder.exists()
    files.remove()


def test_what_the_user_trusts_is_trusted_once(tmp_path):
    own, extra = tmp_path / "own.pem", tmp_path / "extra.pem"
    own.write_bytes(b"OWN")
    extra.write_bytes(b"EXTRA")
    environ = {
        "SSL_CERT_FILE": str(own),  # in the place of the system's
        "NODE_EXTRA_CA_CERTS": str(extra),
        "REQUESTS_CA_BUNDLE": str(own),
    }
    assert list(read_roots(environ)) == [b"OWN", b"EXTRA"]
    with pytest.raises(OSError, match=r"none\.pem"):
        list(read_roots({"NODE_EXTRA_CA_CERTS": str(tmp_path / "none.pem")}))
