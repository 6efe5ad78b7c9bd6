"""Lastro: retrieval you can cite, on the PostgreSQL you already run."""
