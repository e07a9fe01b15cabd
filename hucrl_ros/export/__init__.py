"""Learned torch modules to a bundle that plays without torch."""

from hucrl_ros.export.bundle import BundleExporter
from hucrl_ros.runtime.bundle import Promise
from hucrl_ros.runtime.manifest import BundleFields, LearningReport

__all__ = ["BundleExporter", "BundleFields", "LearningReport", "Promise"]
