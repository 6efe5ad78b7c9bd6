"""Transcripts that coding agents and chat programs write, as events."""

from lastro.sources.transcripts.reading import (
    FORMATS,
    TranscriptFormat,
    check_format,
    read_transcript,
)

__all__ = ["FORMATS", "TranscriptFormat", "check_format", "read_transcript"]
