"""A home in which nobody has set up a client."""

import pytest

from manage.claude_code.variables import BASE_URL, FIRST_PARTY


@pytest.fixture(autouse=True)
def plain_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for name in (BASE_URL, *FIRST_PARTY, "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
