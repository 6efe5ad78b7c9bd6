"""Workers as processes of their own, which tests stop, kill and freeze.

A server has loaded everything and forks them, so that a worker is there at once.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homes import wait_until
from repositories import commit

from lastro.app import App
from lastro.config import Settings
from lastro.job import Job, JobState, RetryPolicy
from lastro.ollama_settings import OllamaSettings
from lastro.store import lock_project, unlock_project
from lastro.types import IndexRequest
from lastro.worker import WorkerOptions, run_worker

FILES = {
    "docs/anchor.md": "# Anchor\n\nThe anchor holds the ship.\n",
    "docs/bilge.md": "# Bilge\n\nThe bilge is pumped dry.\n",
}
# Soon: a second of silence is a dead worker, and what is due is looked for at once.
LOST_S = 1.0
# What a busy machine needs.
PATIENCE_S = 60.0
QUICK = {"grace_s": 0.1, "patience_s": 1.0, "poll_s": 0.1}


@dataclass
class Yard:
    """Repositories, each the project of its name, and an app over their database."""

    folder: Path
    settings: Settings
    app: App

    def defer(self, project: str = "ships") -> Job:
        if not (self.folder / project).exists():
            commit(self.folder / project, FILES)
        request = IndexRequest(path=self.folder / project, project=project)
        return self.app.defer_index(request)

    def job(self, job: Job) -> Job:
        return self.app.jobs(job.project).get(job.id)

    def becomes(self, job: Job, state: JobState) -> bool:
        return wait_until(lambda: self.job(job).state == state, PATIENCE_S)

    def indexed(self, project: str = "ships") -> int:
        return sum(scope.indexed for scope in self.app.coverage(project).scopes)

    @contextmanager
    def turn_of(self, project: str = "ships") -> Iterator[None]:
        """Hold the project's turn, so that a run that begins gets no further."""
        with self.app.database.transaction() as connection:
            row = connection.execute(
                "SELECT id FROM lastro.projects WHERE slug = %s", [project]
            ).fetchone()
        assert row is not None
        with self.app.database.reserved() as connection:
            lock_project(connection, row[0])
            try:
                yield
            finally:
                unlock_project(connection, row[0])


@dataclass
class Running:
    """A worker process; ``said`` are its lines so far."""

    server: "Workers"
    pid: int
    log: Path

    @property
    def said(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines()

    def says(self, words: str) -> bool:
        """Wait until a line has these words; False where none comes."""
        return wait_until(lambda: any(words in line for line in self.said), PATIENCE_S)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """The exit code; negative where a signal ended it."""
        return self.server.ask("wait", self.pid)

    def end(self) -> int:
        """Ask it to end, as a service manager does, and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()


class Workers:
    """Starts workers; a context manager that kills what is left of them."""

    def __enter__(self) -> "Workers":
        self._folder = tempfile.TemporaryDirectory(prefix="lastro-workers-")
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._started = 0
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate(timeout=60)
        self._folder.cleanup()

    def start(self, settings: Settings, **options: Any) -> Running:
        """A worker over these settings, quick unless ``options`` say otherwise."""
        self._started += 1
        log = Path(self._folder.name) / str(self._started)
        log.touch()
        told = {
            "home": str(settings.home),
            "database_url": settings.database_url,
            "embedder": settings.embedder,
            "ollama_host": settings.ollama_host,
            "retry_after_s": settings.ollama.retry_after_s,
            "probe_interval_s": settings.probe_interval_s,
            "idle_stop_s": settings.idle_stop_s,
        }
        pid = self.ask("start", told, {**QUICK, **options}, str(log))
        return Running(server=self, pid=pid, log=log)

    def ask(self, *words: Any) -> Any:
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        print(json.dumps(words), file=to, flush=True)
        return json.loads(back.readline())


def serve() -> None:
    """Fork a worker for each line that asks for one, and say how they ended."""
    ended: dict[int, int] = {}
    children: list[int] = []
    for line in sys.stdin:
        word, *rest = json.loads(line)
        if word == "start":
            pid = os.fork()
            if pid == 0:
                _run_and_exit(*rest)
            children.append(pid)
            print(pid, flush=True)
            continue
        pid = rest[0]
        if pid not in ended:
            ended[pid] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(json.dumps(ended[pid]), flush=True)
    for pid in children:
        if pid not in ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _run_and_exit(told: dict[str, Any], options: dict[str, Any], log: str) -> None:
    code = 1
    try:
        retry_after_s = told.pop("retry_after_s")
        settings = Settings(
            **{**told, "home": Path(told["home"])},
            ollama=OllamaSettings(retry_after_s=retry_after_s),
            worker_lost_s=LOST_S,
        )
        policy = RetryPolicy(first_pause_s=0.1, longest_pause_s=0.2)
        with Path(log).open("a", encoding="utf-8") as file:
            run_worker(
                settings,
                WorkerOptions(**options, retry=policy),
                say=lambda text: print(text, file=file, flush=True),
            )
        code = 0
    except BaseException:  # noqa: BLE001 - told where the test looks
        with Path(log).open("a", encoding="utf-8") as file:
            traceback.print_exc(file=file)
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve()
