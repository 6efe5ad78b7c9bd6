"""The embedder of a database: whose vectors are searched, and the change to another one."""

from collections.abc import Callable
from dataclasses import dataclass

from lastro import switching
from lastro.db.pool import Database
from lastro.documents import Pipeline
from lastro.embedders import Embedder
from lastro.errors import LastroError
from lastro.projects import list_projects
from lastro.search import Engine
from lastro.self_calibration import watch_over
from lastro.switching import EmbedderRef, EmbedderStatus, Say, SwitchReport
from lastro.types import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderSwitch:
    """The switch from the embedder ``name``, which is set, to others.

    ``build`` makes the embedder of a name. ``use`` has searches embed with one from then on, and
    returns what they work with. ``free_bytes`` is the room on the database's disk, if known.
    """

    database: Database
    admin_url: str
    name: str
    embedder: Embedder
    pipeline: Pipeline
    free_bytes: int | None
    build: Callable[[str], Embedder]
    use: Callable[[str, Embedder], Engine]

    def status(self) -> EmbedderStatus:
        """Whose vectors are searched, and how far a switch to others is."""
        return switching.status(self.database, self.name)

    def run(self, name: str, *, progress: Progress, say: Say) -> SwitchReport:
        """Search with another embedder from now on; see ``lastro.switching.switch`` for errors.

        The ``App`` then uses it. Others must be set to it.
        """
        new = self.build(name)
        report = switching.switch(
            self.database,
            admin_url=self.admin_url,
            old=self._active(),
            new=new,
            pipeline=self.pipeline,
            free_bytes=self.free_bytes,
            progress=progress,
            say=say,
        )
        engine = self.use(name, new)
        for project in list_projects(self.database):
            watch_over(engine, project=project.slug)
        return report

    def abandon(self) -> EmbedderRef:
        """Give up a switch to another embedder; see ``lastro.switching.abandon`` for errors."""
        return switching.abandon(self.database, self.admin_url)

    def _active(self) -> Embedder | None:
        """The embedder that made the vectors, as far as the settings can tell."""
        active = self.status().active
        if active is None or active.id == self.embedder.id:
            return self.embedder
        try:
            return self.build(active.id)
        except LastroError:
            return None  # of another release, say
