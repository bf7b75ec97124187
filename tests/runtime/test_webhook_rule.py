import ipaddress

import pytest

from runtime.webhook_rule import PUBLIC_ONLY, WebhookRule

LOCAL = WebhookRule(allows_loopback=True)
INSIDE = WebhookRule((ipaddress.ip_network("10.0.0.0/8"),))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "::1",
        "0.0.0.0",  # noqa: S104
        "::",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b::a83f:8110",
        "64:ff9b:1::808:808",
        "2002:a00:1::",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
    ],
)
def test_addresses_that_are_not_public_are_refused(address):
    assert not PUBLIC_ONLY.allows(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_public_addresses_are_allowed(address):
    assert PUBLIC_ONLY.allows(ipaddress.ip_address(address))


def test_the_operator_allows_networks_and_a_local_service_loopback():
    assert INSIDE.allows(ipaddress.ip_address("10.1.2.3"))
    assert INSIDE.allows(ipaddress.ip_address("::ffff:10.1.2.3"))
    assert not INSIDE.allows(ipaddress.ip_address("192.168.1.1"))
    assert LOCAL.allows(ipaddress.ip_address("127.0.0.1"))
    assert not LOCAL.allows(ipaddress.ip_address("10.1.2.3"))


@pytest.mark.parametrize(
    ("rule", "url", "fault"),
    [
        (PUBLIC_ONLY, "https://hooks.example.org/a?b=c", None),
        (PUBLIC_ONLY, "https://hooks.example.org:8443", None),
        (PUBLIC_ONLY, "https://8.8.8.8/x", None),
        (PUBLIC_ONLY, "http://hooks.example.org", "needs https"),
        (PUBLIC_ONLY, "http://127.0.0.1:8000", "not a public address"),
        (PUBLIC_ONLY, "https://localhost/x", "not a public address"),
        (PUBLIC_ONLY, "https://[::1]/x", "not a public address"),
        (PUBLIC_ONLY, "https://169.254.169.254/latest", "TAXIMETER_WEBHOOK_NETWORKS"),
        (LOCAL, "http://127.0.0.1:8000", None),
        (LOCAL, "http://localhost:8000/x", None),
        (LOCAL, "http://10.0.0.1/", "needs https"),
        (INSIDE, "https://10.0.0.1/", None),
        (PUBLIC_ONLY, "ftp://hooks.example.org", "write the address"),
        (PUBLIC_ONLY, "hooks.example.org", "write the address"),
        (PUBLIC_ONLY, "https://user:pass@hooks.example.org", "write the address"),
        (PUBLIC_ONLY, "https://", "write the address"),
        (PUBLIC_ONLY, "https://hooks.example.org/#part", "after a #"),
        (PUBLIC_ONLY, "https://hooks.example.org/a b", "printable ASCII"),
        (PUBLIC_ONLY, "https://hooks.example.org/\r\nx-evil: 1", "printable ASCII"),
        (PUBLIC_ONLY, "https://höoks.example.org/", "printable ASCII"),
        (PUBLIC_ONLY, "https://hooks.example.org/" + "a" * 2000, "up to 2000"),
        (PUBLIC_ONLY, "https://hooks.example.org:99999/", "write the address"),
        (PUBLIC_ONLY, "https://[::1/", "write the address"),
    ],
)
def test_the_address_of_a_webhook_is_checked_as_it_is_written(rule, url, fault):
    if fault is None:
        rule.check(url)
    else:
        with pytest.raises(ValueError, match=fault):
            rule.check(url)
