import re
from dataclasses import replace
from pathlib import Path

import pytest

from extensions.cluster.settings import CLUSTER
from runtime.settings import (
    Address,
    MailLimits,
    Settings,
    SettingsError,
    Timeouts,
    Upstream,
    group_own_settings,
    list_settings,
    without_secrets,
    without_web_settings,
)


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


def test_origins_are_read_as_browsers_write_them():
    text = "https://App.example.org:443/, http://localhost:5173,http://[::1]:80, app://notes"
    assert read(allowed_origins=text).allowed_origins == (
        "https://app.example.org",
        "http://localhost:5173",
        "http://[::1]",
        "app://notes",
    )
    with pytest.raises(SettingsError, match="no wildcard"):
        read(allowed_origins="*")


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
        ("upstreams", "https://eu.example.org"),
        ("upstreams", "eu=ftp://x"),
        ("upstreams", "eu=https://x/?q=1"),
        ("upstreams", "eu=https://u:p@x"),
        ("upstreams", "Eu=https://x"),
        ("upstreams", "service=https://x"),
        ("upstreams", "eu=https://x,eu=https://y"),
        ("upstreams", f"{'e' * 64}=https://x"),
        ("vendor", "Big Vendor"),
        ("streaming", "fast"),
        ("upstream_timeout", "connect"),
        ("upstream_timeout", "connect=0"),
        ("upstream_timeout", "connect=nan"),
        ("upstream_timeout", "read=3"),
        ("forward_headers", "x team"),
        ("trusted_proxies", "my-proxy"),
        ("allowed_origins", "app.example.org"),
        ("allowed_origins", "https://app.example.org/path"),
        ("allowed_origins", "https://"),
        ("allowed_origins", "https://u@app.example.org"),
        ("allowed_origins", "null"),
        ("request_idle_seconds", "0"),
        ("request_memory", "some"),
        ("web_memory", "799MB"),
        ("request_head", "3KB"),
        ("request_head", "1MB"),
        ("client_connections", "0"),
        ("drain_seconds", "-1"),
        ("drain_seconds", "soon"),
        ("disk_reserve", "much"),
        ("google_issuer", "accounts.google.com"),
        ("google_issuer", "https://u@x"),
        ("google_issuer", "https://x/?y"),
        ("google_issuer", "ftp://x"),
        ("sign_in_mails", "total=0"),
        ("sign_in_mails", "all=1"),
        ("sign_in_mails", "total=x"),
        ("max_endpoints", "0"),
        ("max_endpoints", "-1"),
        ("sign_up", "closed"),
    ],
)
def test_a_bad_setting_is_named_with_what_to_write(name, text):
    with pytest.raises(SettingsError, match=f"TAXIMETER_{name.upper()}={text[:3]}"):
        read(**{name: text})


def test_every_setting_has_a_help_and_a_field():
    own = {setting.name for settings in group_own_settings().values() for setting in settings}
    assert own | {"node", "of_extensions"} == set(Settings.__slots__)
    assert all(setting.help.endswith(".") for setting in list_settings())


def read_mail_server(url):
    server = read(smtp_url=url, mail_from="meter@example.org").smtp_url
    assert server is not None
    return server


@pytest.mark.parametrize(
    ("url", "is_tls", "host", "port"),
    [
        ("smtp://mail.example", False, "mail.example", 587),
        ("smtp://mail.example:25/", False, "mail.example", 25),
        ("smtps://mail.example", True, "mail.example", 465),
        ("smtps://mail.example:2465", True, "mail.example", 2465),
        ("smtp://[::1]:25", False, "::1", 25),
    ],
)
def test_a_mail_server_has_the_port_of_its_kind(url, is_tls, host, port):
    server = read_mail_server(url)
    assert (server.is_tls, server.host, server.port) == (is_tls, host, port)
    assert (server.user, server.password) == (None, None)


def test_user_and_password_of_a_mail_server_are_decoded_and_not_shown():
    server = read_mail_server("smtp://ann%40example.org:p%25%3A%2F%40+%C3%A9@mail.example")
    assert (server.user, server.password) == ("ann@example.org", "p%:/@+é")
    assert str(server) == "smtp://mail.example:587"
    assert "p%" not in repr(server)


def test_a_sender_may_have_a_name():
    sender = read(mail_from="Métre <meter@example.org>").mail_from
    assert sender is not None
    assert (sender.display_name, sender.addr_spec) == ("Métre", "meter@example.org")


@pytest.mark.parametrize(
    "text", ["meter", "Meter <>", "a@b@c", "a@b\r\nBcc: e@x", "M <a@b>\nBcc: e@x"]
)
def test_a_bad_sender_is_named(text):
    with pytest.raises(SettingsError, match="TAXIMETER_MAIL_FROM"):
        read(mail_from=text)


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "http://hunter2@mail.example",
        "smtp://ann:hunter2@",
        "smtp://ann:hunter2/@mail.example",
        "smtp://ann:hunter2#@mail.example",
        "smtp://ann:hunter2?@mail.example",
        "smtp://ann:x@mail.example/hunter2",
        "smtp://ann:x@mail.example:hunter2",
        "smtp://:hunter2@mail.example",
        "smtp://hunter2@mail.example",
        "smtp://ann:hunter2%ff@mail.example",
        "smtp://ann:hunter2@[mail.example",
    ],
)
def test_a_bad_mail_server_is_named_without_its_password(url):
    with pytest.raises(SettingsError, match="TAXIMETER_SMTP_URL: ") as error:
        read(smtp_url=url, mail_from="meter@example.org")
    assert "hunter2" not in str(error.value)
    assert error.value.__cause__ is None


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"smtp_url": "smtp://ann:hunter2@mail.example"}, "MAIL_FROM"),
        ({"github_client_id": "hunter2"}, "GITHUB_CLIENT_SECRET"),
        ({"github_client_secret": "hunter2"}, "GITHUB_CLIENT_ID"),
        ({"google_client_id": "hunter2"}, "GOOGLE_CLIENT_SECRET"),
        ({"google_client_secret": "hunter2"}, "GOOGLE_CLIENT_ID"),
    ],
)
def test_what_is_of_no_use_alone_is_refused(given, missing):
    with pytest.raises(SettingsError, match=f"TAXIMETER_{missing} must be set") as error:
        read(**given)
    assert "hunter2" not in str(error.value)


MARKER = "hunter2"
# Where a password may stand in an address, also where one of its characters ends the user's part early.
WITH_PASSWORD = (
    "{0}", "http://ann:{0}@x.example", "https://:{0}@x.example", "ftp://ann:{0}@x.example",
    "https://ann:{0}/y@x.example", "https://ann:{0}?y@x.example", "https://ann:{0}#y@x.example",
    "https://ann:{0}:y@x.example", "https://ann:y@{0}@x.example", "https://ann:{0}@[x.example",
    "https://ann:{0}@x.example:port", "https://x.example?key={0}", "https://x.example#{0}",
    "https://ann:{0}\u2100@x.example", "redis://ann:{0}/y@x.example", "redis://ann:y/{0}@x.example",
    "rediss://ann:{0}#y@x.example", "redis+sentinel://:{0}/y@x.example/main",
    "redis+sentinel://:y{0}@x.example:port,z:1/main", "redis://ann:{0}@[x.example", "mail://ann:{0}@x",
    "ann:{0}@x.example:80", "connect=1,{0}=1", "connect={0}@x", "https://ann:{0}@x.example,https://y.example",
)  # fmt: skip


@pytest.mark.parametrize("setting", list_settings(), ids=lambda s: s.name)
def test_no_message_about_a_setting_quotes_a_password(setting):
    for text in WITH_PASSWORD:
        try:
            value = setting.parse(text.format(MARKER))
        except ValueError:
            with pytest.raises(SettingsError, match=setting.variable) as error:
                read(**{setting.name: text.format(MARKER)})
            is_address = any(each in text for each in "@?#")
            assert MARKER not in str(error.value) or not (is_address or setting.is_secret)
            assert error.value.__cause__ is None
        else:
            is_shown = setting.is_secret or setting.name in _NO_ADDRESSES or "@" not in text
            assert is_shown or MARKER not in str(value), text


_NO_ADDRESSES = {
    *("data_dir", "extensions", "prices"),
    *("github_client_id", "google_client_id", "mail_from"),
}


def test_what_is_written_down_of_a_server_of_a_cluster_has_no_password_and_is_still_its_address():
    for url in (
        "redis://ann:hunter2@r.example:6380/1",
        "rediss://:hunter2@r.example",
        "redis+sentinel://:hunter2@a.example:1,b.example:2/main?tls=true",
        "unix://:hunter2@/run/redis.sock?password=hunter2",
        "redis://r.example?password=hunter2",
    ):
        written = without_secrets({"TAXIMETER_CLUSTER": url, "PATH": "/bin"})
        assert written["PATH"] == "/bin"
        assert "hunter2" not in written["TAXIMETER_CLUSTER"]
        assert ".example" in written["TAXIMETER_CLUSTER"] or "/run/" in written["TAXIMETER_CLUSTER"]
        assert read(cluster=written["TAXIMETER_CLUSTER"], role="recorder").of(CLUSTER)


SECRET_TEXTS = {
    "smtp_url": "smtp://ann:hunter2@mail.example",
    "cluster": "rediss://ann:hunter2@redis.example",
    "upstream_proxy": "http://ann:hunter2@proxy.example:3128",
}


@pytest.mark.parametrize(
    "setting", [s for s in list_settings() if s.is_secret], ids=lambda s: s.name
)
def test_a_secret_is_in_no_representation_and_goes_to_the_web_process_alone(setting):
    value = setting.parse(SECRET_TEXTS.get(setting.name, "hunter2-and-so-on-and-on"))
    is_own = setting.name in Settings.__slots__
    given = {setting.name: value} if is_own else {"of_extensions": {setting.name: value}}
    settings = replace(read(), **given)
    assert (getattr(settings, setting.name) if is_own else settings.of(setting)) == value
    assert "hunter2" not in repr(settings) + str(settings)
    assert "hunter2" not in str(
        without_secrets({setting.variable: SECRET_TEXTS.get(setting.name, "hunter2")})
    )
    if setting.name in ("cluster", "upstream_proxy"):  # the proxy needs them
        return
    assert setting.is_for_web
    assert without_web_settings({setting.variable: "hunter2", "PATH": "/bin"}) == {"PATH": "/bin"}


def test_what_is_called_a_secret_is_one():
    named = {s.name for s in list_settings() if re.search("secret|password|token", s.name)}
    assert named
    assert named <= {s.name for s in list_settings() if s.is_secret}


def test_the_providers_are_the_known_ones_unless_others_are_named():
    settings = read(google_issuer="https://id.example/realm/")
    assert settings.github_url == "https://github.com"
    assert settings.github_api_url == "https://api.github.com"
    assert settings.google_issuer == "https://id.example/realm"
    assert read().google_issuer == "https://accounts.google.com"


@pytest.mark.parametrize(
    ("listen", "base_url", "is_local"),
    [
        ("127.0.0.1:8080", "", True),
        ("[::1]:8080", "http://localhost:8080", True),
        ("0.0.0.0:8080", "", False),
        ("127.0.0.1:8080", "https://meter.example", False),
        ("127.0.0.1:8080", "https://127.0.0.1.meter.example", False),
        ("127.0.0.1:8080", "https://localhost.meter.example", False),
    ],
)
def test_a_service_is_local_where_it_listens_and_is_known_on_loopback(listen, base_url, is_local):
    assert read(listen=listen, base_url=base_url).is_local == is_local


@pytest.mark.parametrize(
    ("variables", "prints"),
    [
        ({}, True),
        ({"smtp_url": "smtp://localhost", "mail_from": "a@example.org"}, False),
        ({"base_url": "https://meter.example.org"}, False),
        ({"listen": "0.0.0.0:8080"}, False),
    ],
)
def test_links_are_printed_only_on_loopback_and_without_a_mail_server(variables, prints):
    assert read(**variables).prints_links is prints


def test_limits_not_named_keep_their_default():
    assert read(sign_in_mails="total=10, mailbox=1").sign_in_mails == MailLimits(
        total=10, network=60, client=20, mailbox=1
    )
    assert read(max_endpoints="7").max_endpoints == 7


def test_upstreams_of_endpoints_have_names():
    assert read().upstreams == {}
    settings = read(upstreams=" eu=https://eu.example.org/v1x/ , local=http://[::1]:8000,")
    found = {name: str(url) for name, url in settings.upstreams.items()}
    assert found == {"eu": "https://eu.example.org/v1x", "local": "http://[::1]:8000"}
    assert settings.find_upstream(None) == settings.upstream_url
    assert settings.find_upstream("eu") == settings.upstreams["eu"]
    assert settings.find_upstream("gone") is None


def test_a_proxy_that_cannot_be_used_is_named_without_its_password():
    with pytest.raises(SettingsError, match="TAXIMETER_UPSTREAM_PROXY: write http") as error:
        read(upstream_proxy="socks5://ana:hunter2@proxy.example")
    assert "hunter2" not in str(error.value)
    assert read().upstream_proxy is None
