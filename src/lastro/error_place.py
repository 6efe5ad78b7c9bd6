"""Where an error was raised, in words that hold no value: its text may quote a document. Pure."""

import traceback
from pathlib import Path

# Of a long way the end tells most.
SHOWN_FRAMES = 12


def place_of(error: BaseException, *, frames: int = SHOWN_FRAMES) -> str:
    """An error's kinds and where each was raised: at most ``frames`` steps, innermost last."""
    said: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        way = traceback.extract_tb(seen.__traceback__)[-frames:]
        where = " > ".join(f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in way)
        said.append(f"{type(seen).__name__} at {where}" if where else type(seen).__name__)
        seen = seen.__cause__ or seen.__context__
    return "; from ".join(said)
