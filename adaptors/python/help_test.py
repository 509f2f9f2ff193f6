"""What help() says of the package."""

import inspect
import pydoc
import unittest

from adaptors.python import installed  # pylint: disable=unused-import
from tools import unittest_main

import gradwire  # pylint: disable=wrong-import-order


def _members(kind):
    """Public methods and properties of a class."""
    return [(name, member) for name, member in inspect.getmembers(kind)
            if not name.startswith("_") and isinstance(member, (property, type(_members)))]


class HelpTest(unittest.TestCase):
    def test_it_has_every_public_name(self):
        text = pydoc.plaintext.document(gradwire)
        for name in gradwire.__all__:
            self.assertIn(name, text)
        self.assertIn("class Comm", text)

    def test_every_public_name_says_what_it_is_for(self):
        for name in gradwire.__all__:
            public = getattr(gradwire, name)
            self.assertTrue(inspect.getdoc(public), name)
            for member_name, member in _members(public) if inspect.isclass(public) else []:
                self.assertTrue(inspect.getdoc(member), f"{name}.{member_name}")


if __name__ == "__main__":
    unittest_main.main()
