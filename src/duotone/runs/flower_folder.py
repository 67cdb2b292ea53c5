"""The folder of a Flower federation: who takes part, where the server is, and everybody's keys.

hospitals/
  federation.toml    the server's address and the clients' names
  app/               the thin Flower app that every run submits: it imports the installed duotone
  keys/ca.*          the certificate authority for a trial, and the server's certificate: server.*
  keys/CLIENT/       what one client gets, and nobody else: its key and the authority's certificate
  server/            what the server remembers: registered keys, submitted runs
  states/CLIENT/     a client's states, where the client runs on this machine
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import tomli_w

from duotone.errors import ConfigError, MissingExtraError, RunError
from duotone.files import disk_errors, write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, GeneralName

_DAYS = 365
_APP = {
    "pyproject.toml": """[project]
name = "duotone-app"
version = "1.0.0"
description = "Rounds of duotone, which is installed on every machine."
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "duotone"

[tool.flwr.app.components]
serverapp = "duotone_app.server:app"
clientapp = "duotone_app.client:app"

[tool.flwr.app.config]
submission = ""
""",
    "duotone_app/__init__.py": '"""A way to the installed duotone, and nothing else."""\n',
    "duotone_app/server.py": "from duotone.runs import flower_server\n\napp = flower_server.app\n",
    "duotone_app/client.py": "from duotone import messenger\n\napp = messenger.app\n",
}


@dataclass(frozen=True, slots=True)
class Federation:
    """A federation's folder.

    Attributes:
        folder: The folder.
        address: The server's ``host:port``.
        clients: The clients' names, in order.
    """

    folder: Path
    address: str
    clients: tuple[str, ...]

    @property
    def host(self) -> str:
        """The server's host."""
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The server's port."""
        return int(self.address.rpartition(":")[2])

    @property
    def keys(self) -> Path:
        """Where keys and certificates are."""
        return self.folder / "keys"

    def keys_of(self, client: str) -> Path:
        """Return the folder with a client's keys.

        Raises:
            RunError: There is none.
        """
        place = self.keys / client
        if not (place / "node").is_file():
            raise RunError(f"{place} holds no key; make keys with: duotone flower certs")
        return place


def create(folder: Path, address: str, clients: Sequence[str]) -> Federation:
    """Make the folder of a federation.

    Raises:
        ConfigError: Names or address are wrong.
        RunError: The folder is one already.
    """
    problems = _wrong_names(clients)
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        problems.append(f"The address {address!r} is not host:port, such as 127.0.0.1:8443.")
    if problems:
        raise ConfigError(*problems)
    if (folder / "federation.toml").exists():
        raise RunError(f"{folder} is a federation already; choose another folder.")
    for name, content in _APP.items():
        path = folder / "app" / name
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.encode())
    federation = Federation(folder, address, tuple(clients))
    _write_settings(federation)
    return federation


def _wrong_names(clients: Sequence[str]) -> list[str]:
    problems = [
        f"A client is called {name!r}; use letters, digits, - and _."
        for name in clients
        if not name.replace("-", "").replace("_", "").isalnum()
    ]
    if len(set(clients)) != len(clients) or not clients:
        problems.append("Give each client once, and at least one.")
    return problems


def _write_settings(federation: Federation) -> None:
    settings = {"address": federation.address, "clients": list(federation.clients)}
    write_atomically(federation.folder / "federation.toml", tomli_w.dumps(settings).encode())


def read(folder: Path) -> Federation:
    """Open the folder of a federation.

    Raises:
        RunError: It is none.
    """
    try:
        content = tomllib.loads((folder / "federation.toml").read_text(encoding="utf-8"))
        clients = tuple(map(str, content["clients"]))
        return Federation(folder.resolve(), str(content["address"]), clients)
    except (OSError, ValueError, KeyError, TypeError) as error:
        is_absent = isinstance(error, FileNotFoundError)
        why = "it has no federation.toml" if is_absent else str(error)
        raise RunError(
            f"{folder} is not the folder of a federation ({why}); make one with: duotone flower "
            "init"
        ) from error


def make_keys(federation: Federation) -> None:
    """Make an authority for a trial, the server's certificate, and a key for every client.

    Raises:
        RunError: There are keys already.
        MissingExtraError: Flower is not installed.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "Keys need Flower's packages; install them: pip install 'duotone[flower]'"
        ) from error
    keys = federation.keys
    if (keys / "ca.key").exists():
        raise RunError(f"{keys} holds keys already; remove the folder to make new ones.")
    with disk_errors(keys):
        keys.mkdir(parents=True, exist_ok=True)
    authority = ec.generate_private_key(ec.SECP384R1())
    root = _certificate("duotone trial authority", authority, None, None, ())
    _write_certificate(keys / "ca", authority, root)
    hosts = ("localhost", "127.0.0.1", federation.host)
    server = ec.generate_private_key(ec.SECP384R1())
    _write_certificate(
        keys / "server", server, _certificate("server", server, root, authority, hosts)
    )
    for client in federation.clients:
        _make_client_keys(federation, client, root, authority)


def add_client(federation: Federation, client: str) -> Federation:
    """Add a client to a federation, with keys of its own.

    Raises:
        ConfigError: The name is wrong or taken.
        RunError: The authority's key is not here.
    """
    if problems := _wrong_names([*federation.clients, client]):
        raise ConfigError(*problems)
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization as form

        authority = form.load_pem_private_key((federation.keys / "ca.key").read_bytes(), None)
        root = x509.load_pem_x509_certificate((federation.keys / "ca.crt").read_bytes())
    except (OSError, ModuleNotFoundError) as error:
        raise RunError(f"Keys cannot be made here ({error}); do it where `certs` was.") from error
    _make_client_keys(federation, client, root, authority)
    larger = replace(federation, clients=(*federation.clients, client))
    _write_settings(larger)
    return larger


def _make_client_keys(
    federation: Federation, client: str, root: Certificate, authority: EllipticCurvePrivateKey
) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    place = federation.keys / client
    with disk_errors(place):
        place.mkdir()
    write_atomically(place / "ca.crt", (federation.keys / "ca.crt").read_bytes())
    _write_identity(place / "node", ec.generate_private_key(ec.SECP384R1()))
    # The node's processes talk to one another on its own machine, encrypted as well.
    own = ec.generate_private_key(ec.SECP384R1())
    local = _certificate(client, own, root, authority, ("localhost", "127.0.0.1"))
    _write_certificate(place / "runtime", own, local)


def _certificate(
    name: str,
    key: EllipticCurvePrivateKey,
    issuer: Certificate | None,
    signer: EllipticCurvePrivateKey | None,
    hosts: Sequence[str],
) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    signing = signer or key
    authority = key.public_key() if issuer is None else issuer.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority),
            critical=False,
        )
    )
    if issuer is None:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    else:
        names = [_host(host) for host in dict.fromkeys(hosts)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signing, hashes.SHA384())


def _host(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_certificate(place: Path, key: EllipticCurvePrivateKey, certificate: Certificate) -> None:
    from cryptography.hazmat.primitives import serialization as form

    pem, plain = form.Encoding.PEM, form.NoEncryption()
    private = key.private_bytes(pem, form.PrivateFormat.PKCS8, plain)
    _write_secret(place.with_suffix(".key"), private)
    write_atomically(place.with_suffix(".crt"), certificate.public_bytes(pem))


def _write_identity(place: Path, key: EllipticCurvePrivateKey) -> None:
    from cryptography.hazmat.primitives import serialization as form

    ssh = form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()
    _write_secret(place, key.private_bytes(*ssh))
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    write_atomically(place.with_suffix(".pub"), public + b"\n")


def _write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, from its first byte on."""
    with (
        disk_errors(path),
        open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f,
    ):
        f.write(content)
