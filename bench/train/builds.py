"""What was measured: results of several builds make no table."""

import hashlib
import importlib.metadata
import importlib.util
import pathlib

_SHOWN = 12  # digits


def digest(*paths):
    """Of files; what is not there counts as nothing."""
    hasher = hashlib.sha256()
    for path in map(pathlib.Path, paths):
        content = path.read_bytes() if path.is_file() else b""
        hasher.update(hashlib.sha256(content).digest())
    return hasher.hexdigest()[:_SHOWN]


def of_package(name):
    """The digest of an installed package's files; "none" where there is none."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return "none"
    folder = pathlib.Path(spec.origin).parent
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return digest(*sorted(files))


def version_of(name):
    """An installed package's; "none" where there is none."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"
