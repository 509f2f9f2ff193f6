"""Settings of communicators that gradwire.torch chooses where the user does not."""

import os
import re

import torch

from gradwire.comm import settings_text

_FILE = "gradwire.toml"  # unless the setting `config` names another
_MAX_TIMEOUT_MS = 7 * 24 * 3600 * 1000  # the most that the setting takes


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


def value_in(settings, name):
    """Of a setting, as the library reads them; None: they have none of that name."""
    values = {}
    for pair in re.split("[;\n]", settings_text(settings)):
        key, _, value = pair.partition("=")
        values[key.strip()] = value.strip()
    return values.get(name)


def _text_of_file(settings):
    """The library's, which is strict with it; empty: there is none."""
    path = value_in(settings, "config") or os.environ.get("GRADWIRE_CONFIG") or _FILE
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
