"""What starts an index run by itself: a watched folder, and the hooks of a repository."""

from collections.abc import Callable, Iterator
from pathlib import Path

from lastro import watching
from lastro.app import build
from lastro.config import Settings
from lastro.errors import LastroError
from lastro.precedence import behind_others
from lastro.sources import hooks
from lastro.sources.git import check_ref, head_of
from lastro.sources.hooks import Hooks
from lastro.sources.listing import require_folder
from lastro.sources.worktree import worktree_state
from lastro.types import DEFAULT_REF, IndexReport, IndexRequest
from lastro.watching import Pace, Watched


def watch_folder(settings: Settings, request: IndexRequest, *, pace: Pace) -> Iterator[Watched]:
    """Index a folder now and whenever its ref, or its files, moved; never ends.

    Each run opens the database anew, so it may be away between two of them.
    Errors: NotFound and InvalidInput where there is nothing to watch at the start.
    """
    folder = require_folder(request.path)

    def look() -> str:
        if request.worktree:
            return worktree_state(folder, patterns=settings.files)
        return head_of(folder, ref=request.ref)

    def run() -> IndexReport:
        with build(settings) as app:
            return app.index(request)

    look()
    return watching.watch(look, run, pace=pace)


def install_hooks(request: IndexRequest, *, program: Path) -> Hooks:
    """Have a folder indexed in the background by the hooks of its repository.

    ``program`` is the command ``lastro``. Errors: as ``lastro.sources.hooks.install_hooks``.
    """
    check_ref(request.ref)
    folder = Path(request.path).resolve()
    named = [] if request.project is None else ["--project", request.project]
    at = [] if request.ref == DEFAULT_REF else ["--ref", request.ref]
    command = [str(program), "hook", "run", *named, *at, "--", str(folder)]
    return hooks.install_hooks(folder, command=command)


def remove_hooks(path: str) -> Hooks:
    """Take the lines for a folder out of the hooks of its repository. Errors: NotFound."""
    return hooks.remove_hooks(Path(path).resolve())


def run_hook(settings: Settings, request: IndexRequest, *, tell: Callable[[Watched], None]) -> bool:
    """Index a folder for all hooks that ask for it meanwhile; False where another process does.

    Errors: NotFound for a folder that is in no repository.
    """
    folder = Path(request.path).resolve()
    wish = hooks.begin_run(folder)

    def run() -> None:
        try:
            with build(settings) as app, behind_others():
                tell(watching.Watched(report=app.index(request)))
        except LastroError as error:
            tell(watching.Watched(error=error))

    return watching.run_for_all(wish, run)
