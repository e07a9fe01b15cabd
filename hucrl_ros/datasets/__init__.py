"""A run's episodes in the file formats of other people's tools."""
