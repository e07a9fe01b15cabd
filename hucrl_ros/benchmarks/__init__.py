"""What `hucrl bench` measures."""
