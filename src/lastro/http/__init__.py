"""The HTTP service: a thin door over the app."""
