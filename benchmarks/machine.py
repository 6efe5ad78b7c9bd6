"""What a figure was measured with: machine, versions, settings."""

import os
import platform
import subprocess
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import psutil

from lastro.app import App
from lastro.store import server_facts

REPOSITORY = Path(__file__).parent.parent


def conditions(app: App) -> dict[str, str]:
    """Name and value of everything that a reader needs to repeat a run."""
    with app.database.transaction() as connection:
        server = server_facts(connection)
    settings, profile = app.settings, app.engine.profiles["default"]
    memory_gb = psutil.virtual_memory().total / 2**30
    chunking = ", ".join(f"{name} {value}" for name, value in asdict(settings.chunking).items())
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {memory_gb:.0f} GB, "
        f"{platform.system()}; load {os.getloadavg()[0]:.1f}",
        "versions": f"lastro {version('lastro')} at {commit()}, "
        f"Python {platform.python_version()}, PostgreSQL {server.version.split()[0]}, "
        f"pgvector {server.vector_version}",
        "profile": f"{profile.name} v{profile.version}: vector {profile.vector_weight:g}, "
        f"lexical {profile.lexical_weight:g}",
        "embedder": f"{app.embedder.id} {app.embedder.version}, {app.embedder.dimension} "
        "dimensions",
        "languages": f"{', '.join(settings.languages)}; found for each document",
        "chunks": chunking,
    }


def _processor() -> str:
    """The processor's name where the system tells it, else its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def commit() -> str:
    """The commit measured, with a mark where the code differs from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    try:
        said = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, check=False
        ).stdout
    except OSError:
        said = ""
    return said.strip() or "an unknown commit"
