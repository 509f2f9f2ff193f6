"""The bindings against what the C compiler says of the header."""

import ctypes
import os
import re
import subprocess
import tempfile
import unittest

from adaptors.python import installed
from tools import unittest_main

from gradwire import _bindings as c  # pylint: disable=wrong-import-order

_HEADER = os.path.abspath("include/gradwire/gradwire.h")
_PLAIN = {"int": ctypes.c_int, "float": ctypes.c_float, "size_t": ctypes.c_size_t,
          "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "gwResult_t": ctypes.c_int,
          "gwDataType_t": ctypes.c_int, "gwRedOp_t": ctypes.c_int, "gwStepOutcome_t": ctypes.c_int,
          "void *": ctypes.c_void_p, "const void *": ctypes.c_void_p,
          "const char *": ctypes.c_char_p, "char *": ctypes.POINTER(ctypes.c_char)}


def _compile(source, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "check.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#include <stddef.h>\n#include "{_HEADER}"\n{source}\n')
        return subprocess.run(["gcc", "-std=c11", "-fsyntax-only", *options, path], check=False,
                              capture_output=True, text=True, timeout=60)


def _prototypes():
    """name -> (type of the result, [types of the parameters]), as gcc understands them."""
    with tempfile.TemporaryDirectory() as folder:
        listing = os.path.join(folder, "prototypes")
        done = _compile("", "-aux-info", listing)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        with open(listing, encoding="utf-8") as file:
            found = re.findall(r"gradwire\.h:.*\*/ extern (.*?)(gw\w+) \((.*)\);", file.read())
    return {name: (result.strip(), [] if parameters == "void" else parameters.split(", "))
            for result, name, parameters in found}


def _expected(c_type):
    if c_type in _PLAIN:
        return _PLAIN[c_type]
    if c_type.endswith("*"):
        inner = c_type[:-1].strip()
        inner = inner[: -len("const")].strip() if inner.endswith("const") else inner
        inner = inner if inner.endswith("*") else inner.replace("const ", "")
        return ctypes.POINTER(_expected(inner))
    return getattr(c, c_type)


class BindingsTest(unittest.TestCase):
    def test_every_function_has_the_types_of_the_header(self):
        prototypes = _prototypes()
        self.assertGreater(len(prototypes), 30)
        self.assertEqual(set(prototypes), set(c.FUNCTIONS))
        for name, (result, parameters) in prototypes.items():
            with self.subTest(name):
                bound_result, bound = c.FUNCTIONS[name]
                self.assertIs(bound_result, _expected(result))
                self.assertEqual([kind for _, kind in bound], [_expected(p) for p in parameters])

    def test_every_value_and_layout_is_the_compilers(self):
        enums = [c.gwResult_t, c.gwDataType_t, c.gwRedOp_t, c.gwStepOutcome_t, c.gwLogLevel_t]
        facts = {e.name: e.value for kind in enums for e in kind}
        facts.update({n: v for n, v in vars(c).items() if n.startswith("GW_")})
        for struct in (c.gwUniqueId, c.gwConfig_t, c.gwTensorConfig_t):
            name = struct.__name__
            facts[f"sizeof({name})"] = ctypes.sizeof(struct)
            for member, _ in struct._fields_:
                facts[f"offsetof({name}, {member})"] = getattr(struct, member).offset
        self.assertGreater(len(facts), 50)
        asserts = [f'_Static_assert({fact} == {value}, "{fact}");' for fact, value in facts.items()]
        done = _compile("\n".join(asserts))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_compiler_would_notice(self):
        self.assertNotEqual(_compile('_Static_assert(gwAborted == 99, "");').returncode, 0)

    def test_handles_are_not_exchangeable(self):
        from gradwire._library import lib

        with self.assertRaises(ctypes.ArgumentError):
            lib.gwCommCount(c.gwTensor_t(), ctypes.byref(ctypes.c_int()))

    def test_is_the_installed_package(self):
        self.assertTrue(c.__file__.startswith(installed.FOLDER))


if __name__ == "__main__":
    unittest_main.main()
