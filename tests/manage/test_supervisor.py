import socket

import pytest

from manage.supervisor import StartError, Supervisor
from store.settings import Settings


def settings(tmp_path, listen):
    return Settings.from_env(
        {"TAXIMETER_DATA_DIR": str(tmp_path / "data"), "TAXIMETER_LISTEN": listen}
    )


def test_an_address_that_is_taken_is_named_with_what_to_do(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartError, match=f"{address}.*--listen"):
            Supervisor(settings(tmp_path, address))
