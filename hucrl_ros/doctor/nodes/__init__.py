"""The two nodes with which `hucrl doctor` measures a round trip."""
