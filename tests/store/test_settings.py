from pathlib import Path

import pytest

from store.settings import SETTINGS, Address, Settings, SettingsError, Timeouts, Upstream


def read(**variables):
    return Settings.from_env({f"TAXIMETER_{k.upper()}": v for k, v in variables.items()})


def test_the_defaults_are_those_of_the_documentation():
    settings = read()
    assert settings.listen == Address("127.0.0.1", 8080)
    assert settings.base_url == "http://127.0.0.1:8080"
    assert settings.upstream_url == Upstream("https", "api.anthropic.com", 443, "")
    assert settings.vendor == "anthropic"
    assert settings.data_dir == Path("data")
    assert settings.streaming == "live"
    assert settings.upstream_timeout == Timeouts(connect=10, first_byte=600, idle=600)
    assert settings.drain_seconds == 25
    assert settings.disk_reserve == 10**9


def test_the_base_url_follows_the_port_and_is_one_that_can_be_opened():
    assert read(listen="127.0.0.1:9999").base_url == "http://127.0.0.1:9999"
    assert read(listen="0.0.0.0:9999").base_url == "http://127.0.0.1:9999"
    assert read(listen="[::1]:9999").base_url == "http://[::1]:9999"
    assert read(base_url="https://meter.example/").base_url == "https://meter.example"


def test_an_upstream_may_carry_a_path_prefix_and_a_port():
    upstream = read(upstream_url="http://localhost:3000/a/b/").upstream_url
    assert (upstream.origin, upstream.prefix) == ("http://localhost:3000", "/a/b")
    assert upstream.authority == "localhost:3000"
    assert read(upstream_url="https://[::1]/").upstream_url.authority == "[::1]"


def test_timeouts_not_named_keep_their_default():
    timeouts = read(upstream_timeout="connect=1.5, idle=20").upstream_timeout
    assert timeouts == Timeouts(connect=1.5, first_byte=600, idle=20)


def test_an_empty_variable_is_as_if_it_were_not_there():
    assert read(streaming="").streaming == "live"


def test_sizes_and_lists_are_read():
    settings = read(disk_reserve="500 MB", forward_headers="X-Team-, x-trace")
    assert settings.disk_reserve == 500_000_000
    assert settings.forward_headers == ("x-team-", "x-trace")
    assert [str(n) for n in read(trusted_proxies="10.0.0.0/8, ::1").trusted_proxies] == [
        "10.0.0.0/8",
        "::1/128",
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("listen", "8080"),
        ("listen", "localhost:x"),
        ("listen", "localhost:99999"),
        ("base_url", "meter.example"),
        ("base_url", "http://meter.example/path"),
        ("base_url", "http://user@meter.example"),
        ("upstream_url", "ftp://x"),
        ("upstream_url", "https://"),
        ("upstream_url", "https://x/?q=1"),
        ("upstream_url", "https://x:99999"),
        ("vendor", "Big Vendor"),
        ("streaming", "fast"),
        ("upstream_timeout", "connect"),
        ("upstream_timeout", "connect=0"),
        ("upstream_timeout", "connect=nan"),
        ("upstream_timeout", "read=3"),
        ("forward_headers", "x team"),
        ("trusted_proxies", "my-proxy"),
        ("drain_seconds", "-1"),
        ("drain_seconds", "soon"),
        ("disk_reserve", "much"),
    ],
)
def test_a_bad_setting_is_named_with_what_to_write(name, text):
    with pytest.raises(SettingsError, match=f"TAXIMETER_{name.upper()}={text[:3]}"):
        read(**{name: text})


def test_every_setting_has_a_help_and_a_field():
    assert {setting.name for setting in SETTINGS} == set(Settings.__slots__)
    assert all(setting.help.endswith(".") for setting in SETTINGS)
