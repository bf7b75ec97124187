"""The files of trusted certificate authorities of a run, in a temporary folder."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import certifi

# Where systems have the authorities that they trust, in one file.
SYSTEM_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
)
# By these, programs are told of more authorities, or of others.
USER_VARIABLES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")


class TrustFiles:
    """Two files of authorities: ``roots`` has those that are trusted without the run.

    ``bundle`` also has the authority of the run. A client gets it in place of all that it would trust
    otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.roots = folder / "roots.pem"
        self.bundle = folder / "bundle.pem"

    @classmethod
    def write(cls, environ: Mapping[str, str], authority_pem: bytes) -> Self:
        """Write ``roots`` and ``bundle`` into a new temporary folder.

        ``authority_pem`` is the certificate of the run's authority. Raises OSError with the name of a
        file that cannot be read."""
        roots = b"\n".join(read_roots(environ))
        files = cls(Path(tempfile.mkdtemp(prefix="taximeter-run-")))
        files.roots.write_bytes(roots)
        files.bundle.write_bytes(roots + b"\n" + authority_pem)
        return files

    def remove(self) -> None:
        """Remove the folder, if it still exists."""
        shutil.rmtree(self.folder, ignore_errors=True)


def read_roots(environ: Mapping[str, str]) -> Iterator[bytes]:
    """Yield the authorities that a client in this environment trusts, as PEM. Raises OSError.

    They are the system's, or those in the file that the user set in their place, and those that the
    user added."""
    chosen = environ.get("SSL_CERT_FILE")
    if not chosen:
        yield Path(certifi.where()).read_bytes()
        system = next((path for path in map(Path, SYSTEM_FILES) if path.is_file()), None)
        if system is not None:
            yield system.read_bytes()
    paths = filter(None, map(environ.get, USER_VARIABLES))
    yield from (Path(path).read_bytes() for path in dict.fromkeys(paths))
