"""The command line: a thin door over ``App``; data on stdout, progress and warnings on stderr."""

from lastro.cli.root import main

__all__ = ["main"]
