"""`hucrl sign`: sign bundles, so that a robot can refuse others."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, echo

from hucrl_ros.errors import ConfigError


def run(
    bundles: Annotated[list[Path] | None, Argument(metavar="BUNDLE", help="its folder")] = None,
    key: Annotated[
        Path | None, Option(metavar="FILE", help="private key (Ed25519, OpenSSH's format)")
    ] = None,
    new_key: Annotated[
        Path | None,
        Option(metavar="FILE", help="make a private key there, and FILE.pub beside it"),
    ] = None,
) -> None:
    """Sign bundles, or make a key.

    The public key is printed; it belongs into control.trusted_keys of the robot. Only whoever can
    read the private one can sign.
    """
    from hucrl_ros.controller.signature import new_key as make_key
    from hucrl_ros.controller.signature import sign

    if new_key is not None:
        if bundles or key is not None:
            raise ConfigError("--new-key makes a key and signs nothing: leave the others out")
        echo(make_key(new_key))
        return
    if not bundles or key is None:
        raise ConfigError("nothing to sign: expected BUNDLE ... --key FILE, or --new-key FILE")
    for bundle in bundles:
        echo(f"{bundle}: signed by {sign(bundle, key)}")
