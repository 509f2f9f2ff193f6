"""The package as a user has it: unpacked from the wheel, first on the path.

    from adaptors.python import installed
    import gradwire
"""

import os
import sys
import tempfile
import zipfile

WHEEL = "adaptors/python/gradwire.whl"


def _unpack():
    folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    with zipfile.ZipFile(WHEEL) as archive:
        for member in archive.infolist():
            path = archive.extract(member, folder)
            os.chmod(path, member.external_attr >> 16 & 0o777)
    return folder


FOLDER = _unpack()
# Bazel's folder of runfiles has the name of the workspace, which is the package's too.
sys.path.insert(0, FOLDER)


def environment(**variables):
    """For a Python program of its own that imports the package."""
    return {**os.environ, "PYTHONPATH": FOLDER, **variables}
