"""Recorded episodes to a new bundle: data, model, policies, export."""
