"""Figures of quality and speed, as published in the documentation."""
