"""A learner on another machine: what travels over HTTP, and both ends of it."""
