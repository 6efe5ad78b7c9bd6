"""The command line: a thin door over ``App``; data on stdout, progress and warnings on stderr."""

import gc
import signal
import threading

# Imports make many objects that live as long as the process. Looking for garbage among them, now
# and at exit, is three tenths of a search's CPU time.
gc.disable()
# Until there is a command to interrupt, Ctrl-C just ends the process: no import has anything to
# tidy up, and a traceback through all of them tells nobody anything.
_is_interruptible = (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
)
if _is_interruptible:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from lastro.cli.root import main  # noqa: E402

if _is_interruptible:
    signal.signal(signal.SIGINT, signal.default_int_handler)
gc.freeze()
gc.enable()

__all__ = ["main"]
