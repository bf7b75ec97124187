"""The directory that holds all data, unless a setting names another.

A checkout keeps its data in ``./data``. An installed program may be started in any directory, so it
uses the directory that the platform has for this user's data. A ``./data`` of Taximeter takes precedence
there too, so that an installed program can use the data of a checkout.
"""

from pathlib import Path

import platformdirs

_PACKAGES = Path(__file__).resolve().parents[1]
_LOCAL = Path("data")


def find_default_data_dir() -> Path:
    """Return ``./data`` in a checkout or if it holds our data, else the platform's directory.

    Raises OSError."""
    if _is_checkout() or (_LOCAL.is_dir() and is_ours(_LOCAL)):
        return _LOCAL
    return platformdirs.user_data_path("taximeter")


def is_ours(folder: Path) -> bool:
    """Return whether a directory is empty or a data directory of Taximeter. Raises OSError."""
    return (folder / "control.db").exists() or not any(folder.iterdir())


def _is_checkout() -> bool:
    """Return whether this code is in a checkout, that is, beside ``run.sh``."""
    return (_PACKAGES / "run.sh").is_file()
