from ipaddress import ip_network

import pytest

from addon.client_address import find_client_address

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "expected"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1,198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "junk", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1, junk, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "10.0.0.3", "10.0.0.3"),
        ("fd00::1", "2001:db8::1", "2001:db8::1"),
        ("::ffff:203.0.113.9", "", "203.0.113.9"),
        ("::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("::ffff:10.0.0.1", "::ffff:198.51.100.1, ::ffff:10.0.0.2", "198.51.100.1"),
    ],
)
def test_forwarded_for_is_believed_only_from_trusted_hands(peer, forwarded_for, expected):
    assert find_client_address(peer, forwarded_for, PROXIES) == expected
