"""A run: its folder, preparation, summary, progress, processes."""
