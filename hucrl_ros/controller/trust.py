"""Which folders may be opened as bundles at all, before anything in them is looked at."""

from collections.abc import Sequence
from pathlib import Path

from hucrl_ros.controller.manifest import Manifest, read_manifest
from hucrl_ros.controller.signature import require_signed
from hucrl_ros.errors import BundleError, shortened


class Trust:
    """Bundles inside one folder, and signed ones, as a robot's side asks for."""

    def __init__(self, root: Path | None, keys: Sequence[str]) -> None:
        """Trust bundles inside `root` (None: anywhere) that one of `keys` signed (none: any)."""
        self.root = None if root is None else root.expanduser().resolve()
        self.keys = tuple(keys)

    def require_inside(self, path: Path) -> None:
        """Refuse a bundle that lies elsewhere, links resolved.

        Raises:
            BundleError: so it is.
        """
        if self.root is None:
            return
        try:
            inside = path.resolve().is_relative_to(self.root)
        except (
            OSError,
            ValueError,
            RuntimeError,
        ):  # too long, a null character, links in a circle
            inside = False
        if not inside:
            raise BundleError(
                f"{shortened(path)}: not inside {self.root}, where bundles have to lie: "
                "control.bundle_root, or the run's folder"
            )

    def approve(self, folder: Path, manifest: bytes) -> None:
        """Refuse a bundle that nobody trusted has signed, by its manifest's bytes.

        Raises:
            BundleError: so it is.
        """
        if self.keys:
            require_signed(folder, manifest, self.keys)

    def read_manifest(self, path: Path) -> Manifest:
        """The manifest of a bundle that may be opened.

        Raises:
            BundleError: it may not, or its manifest isn't one.
        """
        self.require_inside(path)
        return read_manifest(path, self.approve)
