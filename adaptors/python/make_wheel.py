#!/usr/bin/env python3
"""Packs files into the folders of a wheel.

The version is the header's. The name file gets the file name that pip wants the wheel to have.
Equal input gives equal bytes.
"""

import argparse
import base64
import hashlib
import os
import re
import zipfile

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip file can say
_FILE_MODE, _PROGRAM_MODE = 0o100644, 0o100755

_METADATA = """\
Metadata-Version: 2.1
Name: gradwire
Version: {version}
Summary: Gradient compression and all-reduce for distributed training
License: Apache-2.0
Requires-Python: >=3.9
"""
_WHEEL = """\
Wheel-Version: 1.0
Generator: gradwire make_wheel
Root-Is-Purelib: false
Tag: {tag}
"""
_ENTRY_POINTS = """\
[console_scripts]
gradwire = gradwire.__main__:main

[torch.backends]
gradwire = gradwire_autoload:autoload
"""


def tag_of_machine():
    """Of one that runs what is built here: the C library must be as new as this one."""
    version = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
    return f"py3-none-manylinux_{version}_{os.uname().machine}"


def version_of(header):
    """As `gradwire --version` has it: "0.1.2"."""
    return ".".join(
        re.search(rf"#define GW_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH")
    )


def _entry(path, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def _write(archive, path, content, mode):
    info = zipfile.ZipInfo(path, _EPOCH)
    info.external_attr = mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


def pack(output, version, tag, files, licenses):
    """Writes the wheel; files: path in it -> (content, mode), licenses: name -> content."""
    info = f"gradwire-{version}.dist-info"
    made = {
        "METADATA": _METADATA.format(version=version),
        "WHEEL": _WHEEL.format(tag=tag),
        "entry_points.txt": _ENTRY_POINTS,
    }
    files = dict(files)
    files.update({f"{info}/{name}": (text.encode(), _FILE_MODE) for name, text in made.items()})
    files.update({f"{info}/licenses/{name}": (content, _FILE_MODE)
                  for name, content in licenses.items()})
    record = "".join(_entry(path, content) for path, (content, _) in files.items())
    record += f"{info}/RECORD,,\n"
    files[f"{info}/RECORD"] = (record.encode(), _FILE_MODE)
    with zipfile.ZipFile(output, "w") as archive:
        for path, (content, mode) in files.items():
            _write(archive, path, content, mode)


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _mode_of(path):
    return _FILE_MODE if path.endswith(".py") else _PROGRAM_MODE


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("header")
    parser.add_argument("wheel")
    parser.add_argument("name_file")
    parser.add_argument("--into", action="append", nargs="+", metavar=("FOLDER", "FILE"))
    parser.add_argument("--licenses", nargs="+", metavar="FILE",
                        help="the package's, and notices of what is compiled into it")
    return parser.parse_args()


def main():
    args = _arguments()
    with open(args.header, encoding="utf-8") as file:
        version = version_of(file.read())
    files = {}
    for folder, *paths in args.into:
        for path in paths:
            name = os.path.basename(path).removesuffix(".stripped")
            files[os.path.normpath(f"{folder}/{name}")] = _read(path), _mode_of(path)
    tag = tag_of_machine()
    licenses = {os.path.basename(path): _read(path) for path in args.licenses}
    pack(args.wheel, version, tag, files, licenses)
    with open(args.name_file, "w", encoding="utf-8") as file:
        file.write(f"gradwire-{version}-{tag}.whl\n")


if __name__ == "__main__":
    main()
