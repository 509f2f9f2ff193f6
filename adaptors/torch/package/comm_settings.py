"""The settings that gradwire.torch itself reads, or chooses where the user does not. All others
are the library's (docs/settings.md).
"""

import contextlib
import datetime
import os
import re

import torch

from gradwire.comm import settings_text

_FILE = "gradwire.toml"  # unless the setting `config` names another
_MIN_BYTES_VARIABLE = "GRADWIRE_MIN_BYTES"
_MIN_BYTES = "1M"
_START_MS = 60_000  # init_timeout_ms, as the library has it
_MAX_TIMEOUT_MS = 7 * 24 * 3600 * 1000  # the most that the setting takes
# Behind a number, in either case.
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def _in_units(text, units):
    """A number with one of the units, or None."""
    found = re.fullmatch(rf"(\d+)\s*({'|'.join(units)})", text.strip(), re.IGNORECASE | re.ASCII)
    return int(found[1]) * units[found[2].lower()] if found else None


def min_bytes():
    """From how many bytes on the backend compresses an array."""
    text = os.environ.get(_MIN_BYTES_VARIABLE) or _MIN_BYTES
    number = _in_units(text, _BYTES)
    if number is None:
        raise ValueError(f"{_MIN_BYTES_VARIABLE} takes a number of bytes, as 65536 or 1M, not "
                         f"'{text}'")
    return number


def milliseconds(timeout):
    """As a setting takes it."""
    return max(1, min(int(timeout.total_seconds() * 1000), _MAX_TIMEOUT_MS))


def timeout_of(group):
    """Of a process group, as a setting takes it; None: torch does not tell."""
    try:
        backend = group._get_backend(torch.device("cpu"))
        return milliseconds(getattr(backend, "wrapped_pg", backend).options._timeout)
    except (AttributeError, RuntimeError):
        return None


def _value_in(settings, name):
    """Of a setting, as the library reads them; None: they have none of that name."""
    values = {}
    for pair in re.split("[;\n]", settings_text(settings)):
        key, _, value = pair.partition("=")
        values[key.strip()] = value.strip()
    return values.get(name)


def start_limit(settings=None):
    """Until when all ranks must have come: init_timeout_ms, or the default in the place of what the
    library refuses later.

    settings: a dict or text.
    """
    text = None
    with contextlib.suppress(TypeError):  # they are none, which attach says when all are here
        text = _value_in(settings, "init_timeout_ms")
    if text is None:
        text = os.environ.get("GRADWIRE_INIT_TIMEOUT_MS", "")
    limit_ms = _in_units(text, _MS)
    return datetime.timedelta(
        milliseconds=min(_START_MS if limit_ms is None else limit_ms, _MAX_TIMEOUT_MS))


def _text_of_file(settings):
    """The library's, which is strict with it; empty: there is none."""
    path = _value_in(settings, "config") or os.environ.get("GRADWIRE_CONFIG") or _FILE
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _is_set(name, settings):
    """By the environment or the file, of which the library takes less notice than of settings."""
    if os.environ.get(f"GRADWIRE_{name.upper()}"):
        return True
    line = rf"^\s*[\"']?{name}[\"']?\s*="
    return re.search(line, _text_of_file(settings), re.MULTILINE) is not None


def with_defaults(settings, **defaults):
    """The user's, a dict or text, as text, with the defaults that are not None and set nowhere."""
    settings = settings_text(settings)
    chosen = [f"{name}={value}; " for name, value in defaults.items()
              if value is not None and not _is_set(name, settings)]
    # Of two values of a setting the library takes the last one.
    return "".join(chosen) + settings
