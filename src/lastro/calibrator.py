"""Ranking numbers and chunk sizes of a project, chosen on judged questions or its own texts."""

from dataclasses import dataclass

from lastro import calibrating
from lastro.calibrating import Calibrated, CalibrationRequest, SelfCalibrated
from lastro.chunk_sweep import Sweep, SweepRequest, sweep
from lastro.documents import Pipeline
from lastro.search import Engine
from lastro.sources.clones import Clones
from lastro.sources.files import FilePatterns
from lastro.types import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrator:
    """What numbers and sizes one project is best searched with."""

    engine: Engine
    project: str
    pipeline: Pipeline
    patterns: FilePatterns
    clones: Clones
    admin_url: str

    def calibrate(self, request: CalibrationRequest, *, progress: Progress) -> Calibrated:
        """Choose a profile's numbers on judged questions; see ``lastro.calibrating.calibrate``."""
        return calibrating.calibrate(
            self.engine,
            request,
            project=self.project,
            pipeline=self.pipeline,
            admin_url=self.admin_url,
            progress=progress,
        )

    def self_calibrate(self, *, adopt: bool = False) -> SelfCalibrated:
        """What a project's own texts say of its vectors, kept as a version. Errors: NotFound."""
        return calibrating.keep_self(self.engine, project=self.project, adopt=adopt)

    def sweep_chunking(self, request: SweepRequest, *, progress: Progress) -> Sweep:
        """Try chunk sizes on judged questions; see ``lastro.chunk_sweep.sweep`` for errors."""
        return sweep(
            self.engine,
            request,
            project=self.project,
            pipeline=self.pipeline,
            patterns=self.patterns,
            admin_url=self.admin_url,
            progress=progress,
            clones=self.clones,
        )
