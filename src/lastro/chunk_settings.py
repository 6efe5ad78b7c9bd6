"""How long chunks are; apart from the chunker, so that reading settings loads no parser."""

from dataclasses import dataclass

from lastro.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSettings:
    """Sizes in characters; no chunk exceeds ``target_chars + window_chars``.

    Errors: InvalidInput for sizes with which chunks would not move forward.
    """

    target_chars: int = 1200
    overlap_chars: int = 150
    window_chars: int = 200

    def __post_init__(self) -> None:
        if self.target_chars < 1:
            raise InvalidInput(f"target_chars is {self.target_chars}; it must be at least 1.")
        if self.window_chars < 0:
            raise InvalidInput(f"window_chars is {self.window_chars}; it must be at least 0.")
        if not 0 <= self.overlap_chars <= self.target_chars // 2:
            raise InvalidInput(
                f"overlap_chars is {self.overlap_chars} with target_chars {self.target_chars}; it "
                f"must be from 0 to half the target ({self.target_chars // 2}), so that every "
                "chunk moves forward."
            )

    @property
    def limit_chars(self) -> int:
        """Hard limit of a chunk."""
        return self.target_chars + self.window_chars
