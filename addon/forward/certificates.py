"""The certificate for the upstream's host, and the certificate authority of one run that issued it.

The authority's key is discarded after signing, so it can never issue another certificate. Neither key
is written to a file. The authority may sign for this host only (RFC 5280, name constraints), and both
certificates expire after a day."""

import ipaddress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(hours=24)
CLOCK_SLACK = timedelta(minutes=5)  # a client's clock may be behind
_NO_USE = dict.fromkeys(
    (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    ),
    False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCertificate:
    """The certificate of a host with its key, and the authority that a client has to trust for it."""

    authority: x509.Certificate
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def authority_pem(self) -> bytes:
        return self.authority.public_bytes(Encoding.PEM)


def issue_certificate(host: str, now: datetime) -> HostCertificate:
    """Return a new certificate for a host, issued by a new authority for this host alone."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _begin("Taximeter run", authority_key, now)
    authority = (
        authority.issuer_name(_name("Taximeter run"))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**_NO_USE | {"key_cert_sign": True}), critical=True)
        .add_extension(_constrain(host), critical=True)
    )
    issuer = authority.sign(authority_key, hashes.SHA256())
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    leaf = (
        _begin("Taximeter run: upstream", key, now)
        .issuer_name(issuer.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**_NO_USE | {"digital_signature": True}), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_name_host(host)]), critical=False)
        .add_extension(identifier, critical=False)
    )
    return HostCertificate(
        authority=issuer, certificate=leaf.sign(authority_key, hashes.SHA256()), key=key
    )


def _begin(name: str, key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _name_host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.encode("idna").decode())


def _constrain(host: str) -> x509.NameConstraints:
    """Return the name constraint that allows certificates for this host alone.

    Subdomains are allowed too, as the RFC demands. A host name excludes all IP addresses, and an IP
    address all names."""
    name = _name_host(host)
    if isinstance(name, x509.DNSName):
        nowhere = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
        return x509.NameConstraints([name], [x509.IPAddress(each) for each in nowhere])
    network = ipaddress.ip_network(host)
    return x509.NameConstraints([x509.IPAddress(network)], [x509.DNSName("")])
