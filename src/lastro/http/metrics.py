"""What a service counts of itself, in Prometheus' form; never a project, a question or a key."""

import os
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import (
    MultiProcessCollector,
    mark_process_dead,  # pyright: ignore[reportUnknownVariableType] - it says no types
)
from prometheus_client.registry import Collector

from lastro.app import App
from lastro.errors import LastroError
from lastro.http.gate import Gate

# prometheus-client's own: where the processes of a service keep what they count, to be added up.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# From a search that finds all in memory to one that ends at its deadline.
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# Several scrapers at once cost the database one look.
BACKLOG_KEPT_S = 5.0
# A process that begins or ends while the files of all are read: the next look finds them whole.
READ_ATTEMPTS, READ_PAUSE_S = 5, 0.01


class Metrics:
    """The counts of one process, and at a scrape those of all processes of the service.

    May be used by several threads.
    """

    def __init__(self, app: App, gate: Gate) -> None:
        self._app, self._gate = app, gate
        self._folder = os.environ.get(FOLDER_VARIABLE)
        own = self._own = CollectorRegistry()
        self._requests = Counter(
            "lastro_http_requests_total",
            "Requests that were answered.",
            ["route", "method", "status"],
            registry=own,
        )
        self._request_seconds = Histogram(
            "lastro_http_request_seconds",
            "Seconds from a request's head to the end of its answer.",
            ["route", "method"],
            buckets=BOUNDS_S,
            registry=own,
        )
        self._refused = Counter(
            "lastro_http_refused_total", "Requests that were refused.", ["reason"], registry=own
        )
        self._search_seconds = Histogram(
            "lastro_search_seconds",
            "Seconds that a stage of a search took.",
            ["stage"],
            buckets=BOUNDS_S,
            registry=own,
        )
        self._degraded = Counter(
            "lastro_degraded_total",
            "Searches whose answer was less than it should be.",
            ["reason"],
            registry=own,
        )
        self._gaps = Counter(
            "lastro_gaps_total", "Searches that nothing answered, counted as gaps.", registry=own
        )
        self._dropped = Counter(
            "lastro_search_log_dropped_total",
            "Searches that were answered and that the log of searches lacks.",
            registry=own,
        )
        self._turns = self._gauge("lastro_http_turns", "Requests that have a turn or wait for one.")
        self._pool = self._gauge("lastro_pool_connections", "Connections to the database.")
        self._waiting = Gauge(
            "lastro_pool_waiting",
            "Threads that wait for a connection.",
            multiprocess_mode="livesum",
            registry=own,
        )
        self._database = CollectorRegistry()
        self._database.register(_Backlog(app))

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, ["state"], multiprocess_mode="livesum", registry=self._own)

    def stage(self, stage: str, took_s: float) -> None:
        """Count a stage of a search."""
        self._search_seconds.labels(stage).observe(took_s)

    def dropped(self, rows: int) -> None:
        """Count searches that were not logged."""
        self._dropped.inc(rows)

    def answered(self, *, route: str, method: str, status: int, took_s: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(route, method, str(status)).inc()
        self._request_seconds.labels(route, method).observe(took_s)
        if self._folder is not None:
            self._look()

    def refused(self, reason: str) -> None:
        """Count a request that was refused."""
        self._refused.labels(reason).inc()

    def searched(self, *, degraded: Iterable[str], is_gap: bool) -> None:
        """Count what a search's outcome said of itself; ``degraded`` has reasons."""
        for reason in set(degraded):
            self._degraded.labels(reason).inc()
        if is_gap:
            self._gaps.inc()

    def exposition(self) -> bytes:
        """Everything, as a scraper reads it. Asks the database."""
        self._look()
        if self._folder is None:
            return generate_latest(self._own) + generate_latest(self._database)
        return counted_in(Path(self._folder)) + generate_latest(self._database)

    def forget(self) -> None:
        """This process ends: what it has now is no more."""
        if self._folder is not None:
            _forget(os.getpid(), Path(self._folder))

    def _look(self) -> None:
        """Note what this process has now; others read it in its file."""
        use = self._app.database.use()
        self._pool.labels("open").set(use.size)
        self._pool.labels("in_use").set(use.in_use)
        self._pool.labels("most").set(use.most)
        self._waiting.set(use.waiting)
        self._turns.labels("short").set(self._gate.short.taken)
        self._turns.labels("long").set(self._gate.long.taken)
        self._turns.labels("signed").set(self._gate.signed.taken)


class _Backlog(Collector):
    """What the database says, asked at a scrape: the same from every process."""

    def __init__(self, app: App, clock: Callable[[], float] = time.monotonic) -> None:
        self._app, self._clock = app, clock
        self._kept: list[Metric] = []
        self._kept_until = 0.0
        self._lock = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Nothing is asked when it is registered."""
        return []

    def collect(self) -> Iterable[Metric]:
        """What was asked at most so many seconds ago; by one scraper, while others wait for it."""
        with self._lock:
            if self._clock() >= self._kept_until:
                self._kept = list(self._ask())
                self._kept_until = self._clock() + BACKLOG_KEPT_S
            return self._kept

    def _ask(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("lastro_database_up", "Whether the database answers.")
        try:
            found = self._app.backlog()
        except LastroError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        gaps = GaugeMetricFamily("lastro_open_gaps", "Open gaps of all projects.")
        gaps.add_metric([], found.open_gaps)
        yield gaps
        if found.index_age_s is not None:
            age = GaugeMetricFamily(
                "lastro_index_age_seconds", "Seconds since the last index run of any project."
            )
            age.add_metric([], found.index_age_s)
            yield age
        jobs = GaugeMetricFamily("lastro_jobs_waiting", "Jobs that wait.", labels=["kind"])
        for kind, count in sorted(found.waiting_jobs.items()):
            jobs.add_metric([kind], count)
        yield jobs


def _forget_dead(folder: Path) -> None:
    """Leave out what processes had that were killed."""
    for file in folder.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if not psutil.pid_exists(pid):
            _forget(pid, folder)


def _forget(pid: int, folder: Path) -> None:
    """Leave out what a process had; another one may do so at the same moment."""
    with suppress(FileNotFoundError):
        mark_process_dead(pid, str(folder))


def counted_in(folder: Path) -> bytes:
    """What all processes that keep their files there counted; they come and go meanwhile."""
    _forget_dead(folder)
    for _ in range(1, READ_ATTEMPTS):
        with suppress(OSError, struct.error):  # a file that is gone, or still empty
            return _added_up(folder)
        time.sleep(READ_PAUSE_S)
    return _added_up(folder)


def _added_up(folder: Path) -> bytes:
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(folder))
    return generate_latest(registry)
