"""The command line: a thin door over ``App``; data on stdout, progress and warnings on stderr."""

import gc

# Imports make many objects that live as long as the process. Looking for garbage among them, now
# and at exit, is three tenths of a search's CPU time.
gc.disable()

from lastro.cli.root import main  # noqa: E402

gc.freeze()
gc.enable()

__all__ = ["main"]
