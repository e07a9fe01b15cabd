"""Settings: one schema, its defaults, overlays, and a robot's and task's YAML."""
