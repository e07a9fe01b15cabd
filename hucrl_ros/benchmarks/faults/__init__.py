"""Bad days of a run, made on purpose: what `hucrl fault` does and measures."""
