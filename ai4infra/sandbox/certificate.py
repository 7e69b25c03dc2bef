"""The served sandbox's certificate: made on this machine, trusted by nobody who isn't told to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from ipaddress import IPv4Address
from pathlib import Path

import requests.utils
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ai4infra.sandbox.files import write_private

# macOS takes no server certificate of more than 825 days.
LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)


@dataclass(frozen=True)
class CertificateFiles:
    """Where the certificate lies. Only ``server`` holds a private key."""

    server: Path
    """Certificate and key of the server."""
    authority: Path
    """The certificate to trust. Its key was thrown away, so that it can sign nothing else."""
    bundle: Path
    """The public authorities that ``requests`` trusts, and ours."""


def ensure_certificate(folder: Path) -> CertificateFiles:
    """Return the certificate in the folder; make one when there is none or it ends soon."""
    files = CertificateFiles(folder / "server.pem", folder / "ca.pem", folder / "bundle.pem")
    if not _is_good(files):
        _make(files)
    return files


def _is_good(files: CertificateFiles) -> bool:
    try:
        server = x509.load_pem_x509_certificate(files.server.read_bytes())
        authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
        server.verify_directly_issued_by(authority)
    except (OSError, ValueError, TypeError, InvalidSignature):
        return False
    soon = datetime.now(timezone.utc) + RENEW_BEFORE
    return files.bundle.exists() and server.not_valid_after_utc > soon


def _make(files: CertificateFiles) -> None:
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    name = _name("ai4infra sandbox authority")
    authority = _authority(name, authority_key)
    server = _server(name, authority_key, server_key)
    key = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    trusted = authority.public_bytes(Encoding.PEM)
    write_private(files.server, key + server.public_bytes(Encoding.PEM))
    write_private(files.authority, trusted)
    public = Path(requests.utils.DEFAULT_CA_BUNDLE_PATH).read_bytes()
    write_private(files.bundle, public + b"\n" + trusted)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        # Clocks of containers and their hosts differ a little.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
    )


def _authority(name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    return (
        _builder(name, name)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _server(
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
    )
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        _builder(_name("localhost"), issuer)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(issued_by, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
