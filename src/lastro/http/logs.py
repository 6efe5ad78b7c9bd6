"""The log of the service: one line an event on stderr, without a value of any error."""

import json
import logging.config
import re
import sys
from types import TracebackType
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from lastro.error_place import place_of

# How Python begins to write out an error, which Starlette tells uvicorn as a text.
_TRACEBACK = "Traceback (most recent call last)"

# A value that is told as it is: names, numbers, ids, and templates of routes.
_WORD = re.compile(r"[A-Za-z0-9._:/@{}+-]+")

Caught = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def set_up_log(form: str) -> None:
    """Write this process's log to stderr as ``form``, "json" or "text"; uvicorn's lines too."""
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "json": {
                    "()": JsonLines,
                    "fmt": "%(levelname)s %(name)s %(message)s",
                    "rename_fields": {"levelname": "level", "name": "logger"},
                    "timestamp": "at",
                },
                "text": {"()": TextLines, "fmt": "%(asctime)s %(levelname)s %(message)s"},
            },
            "filters": {"place": {"()": PlaceAlone}},
            "handlers": {
                "stderr": {
                    "class": "logging.StreamHandler",
                    "stream": sys.stderr,
                    "formatter": form,
                }
            },
            "root": {"level": "WARNING", "handlers": ["stderr"]},
            "loggers": {
                "lastro.http": {"level": "INFO"},
                "uvicorn": {"level": "INFO", "handlers": []},
                # Its line of a request has the path, and paths hold names; ours has the route.
                "uvicorn.access": {"propagate": False, "handlers": []},
                # Its connections come and go; what that means is in the answers.
                "psycopg.pool": {"level": "ERROR"},
                # They write out errors: of tasks that nobody waited for, of a start that fails.
                "asyncio": {"filters": ["place"]},
                "uvicorn.error": {"filters": ["place"]},
            },
        }
    )


class PlaceAlone(logging.Filter):
    """Takes the text of a line that came with an error or holds one, and leaves its place."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Every line passes."""
        values = (record.msg, *(record.args if isinstance(record.args, tuple) else ()))
        holds_error = any(isinstance(one, BaseException) for one in values)
        if record.exc_info or holds_error or _TRACEBACK in record.getMessage():
            record.msg, record.args = "an error that nobody waited for", ()
        return True


class JsonLines(JsonFormatter):
    """A JSON object a line."""

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Without the form of a message that uvicorn means for a terminal."""
        log_data.pop("color_message", None)
        return super().process_log_record(log_data)

    def formatException(self, ei: Caught) -> str:  # noqa: N802 - logging's name
        """The place alone."""
        return "" if ei[1] is None else place_of(ei[1])


class TextLines(logging.Formatter):
    """A line for people: what happened, and the values that came with it.

    A value that is no plain word stands in quotes, with escapes: a project may be called so that
    it would write a line of its own, or a colour.
    """

    def formatException(self, ei: Caught) -> str:  # noqa: N802 - logging's name
        """The place alone."""
        return "" if ei[1] is None else place_of(ei[1])

    def format(self, record: logging.LogRecord) -> str:
        """The message, and each value as ``name=value``."""
        values = {key: value for key, value in vars(record).items() if key not in _OWN}
        said = " ".join(f"{key}={_in_line(value)}" for key, value in values.items())
        return f"{_escaped(super().format(record))} {said}".rstrip()


def _in_line(value: object) -> str:
    """A value as one word, or in quotes."""
    text = str(value)
    return text if _WORD.fullmatch(text) else json.dumps(text)


def _escaped(text: str) -> str:
    """Without characters that would end a line or steer a terminal."""
    return "".join(
        char if char.isprintable() else " " if char == "\n" else json.dumps(char)[1:-1]
        for char in text
    )


# What every record has; the rest came with the event.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
