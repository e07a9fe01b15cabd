"""Ed25519 signatures of bundles, in OpenSSH's formats.

A signature is of the manifest's bytes, which hold the hash of every other file.
"""

import base64
import binascii
import json
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    load_ssh_private_key,
    load_ssh_public_key,
)

from hucrl_ros.config.regular_files import read_regular
from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller.manifest import SIGNATURE, manifest_bytes
from hucrl_ros.errors import BundleError, ConfigError, shortened

SIGNATURE_BYTES = 2**12
PURPOSE = b"hucrl_ros bundle\n"
"""Signed with the manifest, so that nothing else that the key has signed passes for a bundle."""


def new_key(path: Path) -> str:
    """Write a private key, which only its owner can read, and `<path>.pub`; returns the latter.

    Raises:
        ConfigError: something lies there.
    """
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = _public(key)
    try:
        for file, content, mode in (
            (path, private, 0o600),
            (path.with_name(f"{path.name}.pub"), f"{public}\n".encode(), 0o644),
        ):
            made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            with os.fdopen(made, "wb") as opened:
                opened.write(content)
    except OSError as error:
        raise ConfigError(f"{error.filename}: can't make a key there: {error.strerror}") from None
    return public


def sign(bundle: Path, key: Path) -> str:
    """Sign a bundle with a private key; returns the public one.

    Raises:
        ConfigError: the key can't be read.
        BundleError: the bundle has no manifest, or nothing can be written there.
    """
    private = _read_private(key)
    content = manifest_bytes(bundle)
    public = _public(private)
    signature = base64.b64encode(private.sign(PURPOSE + content)).decode()
    text = json.dumps({"key": public, "signature": signature}, indent=1)
    unfinished = bundle / f".{SIGNATURE}"
    try:
        unfinished.unlink(missing_ok=True)  # a stranger's bundle may hold a link of that name
        made = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with os.fdopen(made, "w", encoding="utf-8") as opened:
            opened.write(f"{text}\n")
        unfinished.replace(bundle / SIGNATURE)
    except OSError as error:
        raise BundleError(f"{bundle / SIGNATURE}: {error.strerror}") from None
    return public


def check_signing(control: ControlSettings) -> None:
    """Refuse settings of a run whose own bundles its controller would refuse.

    Raises:
        ConfigError: so it is, or the key can't be read.
    """
    wanted = f"control.trusted_keys has {len(control.trusted_keys)} keys"
    if not control.signing_key:
        if control.trusted_keys:
            raise ConfigError(
                f"{wanted} and control.signing_key is empty, so that this run's own bundles would "
                "be refused: name the file of a trusted private key"
            )
        return
    public = _public(_read_private(Path(control.signing_key)))
    if control.trusted_keys and _bare(public) not in map(_bare, control.trusted_keys):
        raise ConfigError(
            f"{wanted}, but that of control.signing_key isn't among them: add {public!r}"
        )


def sign_for_run(bundle: Path, signing_key: str) -> None:
    """Sign a bundle as the setting `control.signing_key` asks for; empty: leave it as it is.

    Raises:
        HucrlError: as of `sign`.
    """
    if signing_key:
        sign(bundle, Path(signing_key))


def require_signed(folder: Path, manifest: bytes, trusted: Sequence[str]) -> None:
    """Refuse a bundle that none of the trusted keys has signed.

    Args:
        folder: The bundle.
        manifest: Its manifest as it was read.
        trusted: Public keys.

    Raises:
        BundleError: so it is.
    """
    if not (folder / SIGNATURE).exists():
        raise BundleError(f"{shortened(folder)}: nobody has signed it, see control.trusted_keys")
    line = f"{shortened(folder)}: {SIGNATURE}"
    name, signature = _read_signature(folder, line)
    known = next((key for key in trusted if _bare(key) == _bare(name)), None)
    if known is None:
        raise BundleError(f"{line}: its key {shortened(name)} isn't in control.trusted_keys")
    public = load_ssh_public_key(known.encode())
    assert isinstance(public, Ed25519PublicKey), "the schema takes no other"
    try:
        public.verify(signature, PURPOSE + manifest)
    except InvalidSignature:
        raise BundleError(
            f"{line}: not of this manifest: one of both was changed after it was signed"
        ) from None


def signer_of(folder: Path) -> str | None:
    """Public key with which a bundle was signed, whoever's it is; None: nobody signed it.

    Without its comment, which isn't signed.

    Raises:
        BundleError: its signature isn't one of its manifest.
    """
    if not (folder / SIGNATURE).exists():
        return None
    line = f"{shortened(folder)}: {SIGNATURE}"
    name, _ = _read_signature(folder, line)
    try:
        key = load_ssh_public_key(name.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise BundleError(f"{line}: its key {shortened(name)} is no Ed25519 key")
    require_signed(folder, manifest_bytes(folder), [name])
    return " ".join(_bare(name))


def _read_signature(folder: Path, line: str) -> tuple[str, bytes]:
    """Public key and signature that a bundle's file tells; `line` begins messages."""
    content = read_regular(folder / SIGNATURE, SIGNATURE_BYTES, BundleError, line)
    try:
        document = json.loads(content)
        return str(document["key"]), base64.b64decode(document["signature"])
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error):
        raise BundleError(f"{line} isn't a signature of `hucrl sign`") from None


def _public(key: Ed25519PrivateKey) -> str:

    ssh = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return key.public_key().public_bytes(*ssh).decode()


def _bare(key: str) -> list[str]:
    """A public key without its comment."""
    return key.split()[:2]


def _read_private(path: Path) -> Ed25519PrivateKey:

    try:
        key = load_ssh_private_key(path.expanduser().read_bytes(), None)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: no private key without password: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path}: expected an Ed25519 key, as of `hucrl sign --new-key`")
    return key
