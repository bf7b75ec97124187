import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from extensions.otel.collector import find_collector, find_timeout_s
from runtime.setting import SettingsError


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "http://localhost:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c.example/a/"}, "https://c.example/a/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, "http://localhost:4318/v1/traces"),
        (
            {
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c.example/t",
                "OTEL_EXPORTER_OTLP_ENDPOINT": "https://d.example",
            },
            "https://c.example/t",
        ),
    ],
)
def test_a_collector_is_known_by_the_address_that_opentelemetry_sends_to(environ, url, monkeypatch):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert find_collector(environ) == url
    if "".join(environ.values()) != " ":
        assert OTLPSpanExporter()._endpoint == url


def test_a_secret_in_the_address_is_not_part_of_its_name():
    environ = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://me:secret@c.example:1/t?key=secret"}
    assert find_collector(environ) == "https://c.example:1/t"


@pytest.mark.parametrize("text", ["inf", "nan", "-1", "0", "1e300"])
def test_a_timeout_that_no_timer_takes_says_what_to_write(text):
    with pytest.raises(SettingsError, match=r"OTEL_EXPORTER_OTLP_TIMEOUT is .*: write a number"):
        find_timeout_s({"OTEL_EXPORTER_OTLP_TIMEOUT": text})


def test_a_timeout_is_read_as_the_library_does():
    assert find_timeout_s({"OTEL_EXPORTER_OTLP_TIMEOUT": "2.5"}) == 2.5
    assert find_timeout_s({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}) == 10
