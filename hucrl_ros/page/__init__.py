"""`hucrl watch`: a live page of what the robot does, and of what its bundle believes."""
