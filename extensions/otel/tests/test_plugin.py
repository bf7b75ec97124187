import signal
import sqlite3
from contextlib import closing
from pathlib import PurePosixPath

from extensions.otel import FILE
from manage.supervision.supervisor import Supervisor
from runtime.settings import Settings
from store.backup.contents import find_rule

SECRET = "a-secret-of-the-collector"


def test_a_backup_leaves_out_how_far_collectors_have_come():
    rule = find_rule(PurePosixPath(FILE))
    assert rule is not None
    assert not rule.is_copied


async def test_only_the_exporting_process_gets_the_variables_of_opentelemetry(
    tmp_path, monkeypatch
):
    """Headers for the collector are secrets. The collector is noted before the first call."""
    environs = {}

    async def keep(self, child, environ):
        environs[child.name] = environ
        if child.name == "otel":
            self._request_stop()
        else:
            await self._stopping.wait()

    monkeypatch.setattr(Supervisor, "_keep", keep)
    environ = {"TAXIMETER_DATA_DIR": str(tmp_path), "TAXIMETER_LISTEN": "127.0.0.1:0"}
    settings = Settings.from_env(environ | {"TAXIMETER_OTEL": "on"})
    handled = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    supervisor = Supervisor(settings)
    given = {"OTEL_EXPORTER_OTLP_HEADERS": SECRET, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1"}
    try:
        await supervisor.run({"PATH": "/bin", "TAXIMETER_SMTP_URL": SECRET, **given})
    finally:
        supervisor.close()
        signal.signal(signal.SIGINT, handled[0])
        signal.signal(signal.SIGTERM, handled[1])
    with_them = [name for name, environ in environs.items() if given.keys() & environ.keys()]
    assert with_them == ["otel"]
    assert environs["otel"].items() >= given.items()
    assert "TAXIMETER_SMTP_URL" not in environs["otel"]
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        assert db.execute("select collector from collectors").fetchall() == [
            ("http://c:1/v1/traces",)
        ]
