"""The beginning of a service: its addresses as JSON, and starts that fail."""

import json
from pathlib import Path

import pytest

from tests.live.lives.streams import numbered
from tests.live.service import Endpoint, Service
from tests.upstream import Upstream, wait_until


def test_up_as_json_prints_one_document_and_the_calls_elsewhere(crashing: Endpoint) -> None:
    service = crashing.service
    assert crashing.send(numbered(crashing, 0)).status == 200
    wait_until(lambda: f"  {crashing.slug}  " in service.errors, "its line")
    addresses = json.loads(service.printed)
    assert addresses["base_url"] == f"http://{service.host}"
    assert addresses["endpoint_url"] == f"{addresses['base_url']}/proxy/default"
    assert "/sign-in/link?token=" in addresses["sign_in_url"]
    assert "WARNING" not in service.errors, "nothing is wrong"


def test_a_second_up_on_the_same_data_is_refused_with_the_pid_of_the_first(
    crashing: Endpoint,
) -> None:
    service = crashing.service
    second = Service(service.data_dir.parent, crashing.upstream.url)
    try:
        with pytest.raises(AssertionError, match=str(service.pid)):
            second.start()
    finally:
        second.close()
    service.wait_healthy()


def test_a_first_start_that_fails_ends_the_service_with_the_reason(
    upstream: Upstream, tmp_path: Path
) -> None:
    (tmp_path / "data" / "recorder.lock").mkdir(parents=True)
    (tmp_path / "data").chmod(0o700)
    service = Service(tmp_path, upstream.url)
    try:
        with pytest.raises(AssertionError, match=r"`up` ended"):
            service.start()
        assert service.wait() == 1
        assert "the recorder process could not start (exit status 1)" in service.output
        assert "recorder.lock: Is a directory" in service.output
        assert "Traceback" not in service.output
    finally:
        service.close()
