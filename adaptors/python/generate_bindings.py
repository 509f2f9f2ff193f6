#!/usr/bin/env python3
"""Makes the ctypes bindings of gradwire.h: generate_bindings.py HEADER > _bindings.py.

The header is plain C99 of a few forms: integer macros, enums, opaque handles, structs of plain
members, and functions marked GW_API. What does not fit is an error, not left out.
"""

import re
import sys

_PLAIN_TYPES = {
    "char": "ctypes.c_char",
    "int": "ctypes.c_int",
    "unsigned int": "ctypes.c_uint",
    "float": "ctypes.c_float",
    "size_t": "ctypes.c_size_t",
    "int64_t": "ctypes.c_int64",
    "uint64_t": "ctypes.c_uint64",
}
# The integer macros; GW_API and GW_ENUM are attributes, *_INITIALIZER values of structs.
_MACRO = re.compile(r"^#define (GW_\w+) (?!__attribute__|:|\{)(\S.*)$", re.MULTILINE)
_ENUM = re.compile(r"typedef enum(?: GW_ENUM)? \{(.*?)\} (\w+);", re.DOTALL)
_HANDLE = re.compile(r"typedef (?:struct \w+|void)\* (\w+);")
# A callback runs amid the library's work, where Python must not: only null can be given.
_CALLBACK = re.compile(r"typedef void \(\*(\w+)\)\([^()]*\);")
_STRUCT = re.compile(r"typedef struct \{(.*?)\} (\w+);", re.DOTALL)
_FUNCTION = re.compile(r"^GW_API (.*?)(\w+)\((.*?)\);", re.DOTALL | re.MULTILINE)
_DECLARATION = re.compile(r"(?P<type>.*?[ *])(?P<name>\w+)(?:\[(?P<length>\w+)\])?")

_HEAD = '''"""Made from gradwire.h by generate_bindings.py; do not edit."""

import ctypes
import enum
'''

_TAIL = '''

def bind(library):
    """Gives the functions of a ctypes.CDLL their types."""
    for name, (result, parameters) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = [kind for _, kind in parameters]
'''


def _one_line(text):
    return " ".join(text.split())


def _without_comments(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return text.replace("\\\n", " ")


class Header:
    """What the header declares, each in order: macros, enums, handles, structs, functions."""

    def __init__(self, text):
        text = _without_comments(text)
        self.macros = [(n, re.sub(r"(?<=[0-9a-fA-F])u\b", "", v.strip()))
                       for n, v in _MACRO.findall(text)]
        self.enums = [(name, self._enumerators(body)) for body, name in _ENUM.findall(text)]
        self.handles = _HANDLE.findall(text)
        self.callbacks = _CALLBACK.findall(text)
        self.structs = [(name, [_one_line(m) for m in body.split(";") if m.strip()])
                        for body, name in _STRUCT.findall(text)]
        self.functions = [(name, _one_line(result), self._parameters(parameters))
                          for result, name, parameters in _FUNCTION.findall(text)]
        if len(self.functions) != len(re.findall(r"^GW_API\b", text, re.MULTILINE)):
            raise ValueError("a GW_API declaration has a form that is not known")

    @staticmethod
    def _enumerators(body):
        return [_one_line(e) for e in body.split(",") if e.strip()]

    @staticmethod
    def _parameters(text):
        return [] if text.strip() == "void" else [_one_line(p) for p in text.split(",")]

    def ctype(self, c_type):
        """The ctypes expression of a C type such as "const char*"."""
        plain = _one_line(c_type.replace("const", " ").replace("*", " "))
        stars = c_type.count("*")
        if plain in self.callbacks:
            return plain
        if stars > 0 and plain == "void":
            return self._pointers("ctypes.c_void_p", stars - 1)
        # Only text is const char*; a char* is a buffer to write.
        if stars == 1 and plain == "char" and "const" in c_type:
            return "ctypes.c_char_p"
        if plain in _PLAIN_TYPES:
            return self._pointers(_PLAIN_TYPES[plain], stars)
        if plain in (name for name, _ in self.enums):
            return self._pointers("ctypes.c_int", stars)
        if plain in self.handles or plain in (name for name, _ in self.structs):
            return self._pointers(plain, stars)
        raise ValueError(f"the type '{c_type}' is not known")

    @staticmethod
    def _pointers(expression, stars):
        return "ctypes.POINTER(" * stars + expression + ")" * stars

    def declared(self, declaration):
        """(name, ctypes expression) of a parameter or member such as "char internal[8]"."""
        match = _DECLARATION.fullmatch(declaration)
        if match is None:
            raise ValueError(f"the declaration '{declaration}' has a form that is not known")
        kind = self.ctype(match["type"])
        return match["name"], kind + (f" * {match['length']}" if match["length"] else "")


def _listed(pairs):
    return "[" + ", ".join(f'("{name}", {kind})' for name, kind in pairs) + "]"


def bindings(text):
    """The Python source for the text of the header."""
    header = Header(text)
    lines = [_HEAD]
    lines += [f"{name} = {value}" for name, value in header.macros]
    for name, enumerators in header.enums:
        lines += ["", "", f"class {name}(enum.IntEnum):"]
        lines += [f"    {e}" for e in enumerators]
    lines += [""] + [f"{name} = ctypes.c_void_p" for name in header.callbacks]
    for name in header.handles:
        lines += ["", "", f"class {name}(ctypes.c_void_p):", "    pass"]
    for name, members in header.structs:
        fields = _listed([header.declared(m) for m in members])
        lines += ["", "", f"class {name}(ctypes.Structure):", f"    _fields_ = {fields}"]
    lines += ["", "", "# name: (type of the result, [(parameter, type), ...])", "FUNCTIONS = {"]
    for name, result, parameters in header.functions:
        pairs = _listed([header.declared(p) for p in parameters])
        lines.append(f'    "{name}": ({header.ctype(result)}, {pairs}),')
    return "\n".join([*lines, "}"]) + "\n" + _TAIL


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(bindings(file.read()))


if __name__ == "__main__":
    main()
