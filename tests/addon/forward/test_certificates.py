import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from addon.forward import certificates
from addon.forward.certificates import issue_certificate

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
HOST = "api.anthropic.com"


def verify(issued, subject, at=NOW):
    policy = PolicyBuilder().store(Store([issued.authority])).time(at)
    policy.build_server_verifier(subject).verify(issued.certificate, [])


def test_a_client_that_trusts_the_authority_trusts_the_host_for_a_day():
    issued = issue_certificate(HOST, NOW)
    verify(issued, x509.DNSName(HOST))
    verify(issued, x509.DNSName(HOST), NOW + timedelta(hours=23))
    for at in (NOW + timedelta(hours=25), NOW - timedelta(hours=1)):
        with pytest.raises(VerificationError):
            verify(issued, x509.DNSName(HOST), at)
    for each in (issued.authority, issued.certificate):
        lifetime = each.not_valid_after_utc - each.not_valid_before_utc
        assert lifetime <= timedelta(hours=24, minutes=5)


def handshake(issued_by, certificate, tmp_path, name):
    """Let OpenSSL verify a certificate as a client of this name does."""
    key_file, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    key_file.write_bytes(
        certificate.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    chain.write_bytes(certificate.certificate.public_bytes(Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key_file)
    client = ssl.create_default_context(cadata=issued_by.authority_pem.decode())
    ends = [ssl.MemoryBIO() for _ in range(2)]
    sides = [
        client.wrap_bio(ends[0], ends[1], server_hostname=name),
        server.wrap_bio(ends[1], ends[0], server_side=True),
    ]
    done = [False, False]
    for _ in range(10):
        for number, side in enumerate(sides):
            try:
                side.do_handshake()
                done[number] = True
            except ssl.SSLWantReadError:
                continue
    assert all(done)


@pytest.mark.parametrize("host", [HOST, "127.0.0.1", "::1"])
def test_openssl_verifies_it_strictly(host, tmp_path):
    issued = issue_certificate(host, datetime.now(UTC))
    handshake(issued, issued, tmp_path, host)


@pytest.mark.parametrize("other", ["evil.example", "127.0.0.1", "console.anthropic.com"])
def test_even_with_its_key_the_authority_could_name_no_other_host(tmp_path, monkeypatch, other):
    """The certificate of another host, signed by the key of the authority for this one."""
    named = certificates._name_host
    now = datetime.now(UTC)
    constrained = certificates._constrain(HOST)
    monkeypatch.setattr(certificates, "_constrain", lambda _host: constrained)
    issued = issue_certificate(other, now)
    assert (
        named(other)
        in issued.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    )
    with pytest.raises(ssl.SSLCertVerificationError, match=r"permitted subtree|excluded subtree"):
        handshake(issued, issued, tmp_path, other)


def test_no_key_is_shown_and_none_is_kept_of_the_authority():
    issued = issue_certificate(HOST, NOW)
    assert "key" not in repr(issued)
    authority_key = issued.authority.public_key()
    assert issued.key.public_key() != authority_key
