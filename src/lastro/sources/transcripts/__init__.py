"""Transcripts that coding agents and chat programs write, as events."""

from lastro.sources.transcripts.reading import FORMATS, TranscriptFormat, read_transcript

__all__ = ["FORMATS", "TranscriptFormat", "read_transcript"]
