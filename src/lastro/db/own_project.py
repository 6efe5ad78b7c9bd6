"""The one project that a thread keeps to, whatever its name comes to mean meanwhile."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_own_project: ContextVar[int | None] = ContextVar("lastro_own_project", default=None)


def own_project() -> int | None:
    """The id of the only project that this thread, or task, knows; None where it knows all."""
    return _own_project.get()


@contextmanager
def keeping_to(project_id: int) -> Generator[None]:
    """Within, a name is that of this project or of none: none is made, and none found in its place.

    What was asked for one project is never done in another one that came by its name meanwhile.
    """
    token = _own_project.set(project_id)
    try:
        yield
    finally:
        _own_project.reset(token)
