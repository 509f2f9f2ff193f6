import io
import unittest
import xml.etree.ElementTree as ElementTree

from tools import unittest_main


class _Sample(unittest.TestCase):
    """Run by hand below; its cases must not run as this file's own."""

    def passes(self):
        self.assertTrue(True)

    def fails(self):
        self.assertTrue(False)

    def raises(self):
        raise ValueError("odd")

    def skips(self):
        self.skipTest("no device")

    def fails_in_a_subtest(self):
        for value in (1, 2):
            with self.subTest(value=value):
                self.assertEqual(value, 1)


class UnittestMainTest(unittest.TestCase):
    def test_each_case_has_its_entry(self):
        names = ("passes", "fails", "raises", "skips", "fails_in_a_subtest")
        runner = unittest.TextTestRunner(stream=io.StringIO(), resultclass=unittest_main._Result)
        result = runner.run(unittest.TestSuite(_Sample(name) for name in names))
        suite = ElementTree.fromstring(unittest_main.to_xml(result.outcomes, 0.5)).find("testsuite")
        self.assertEqual(suite.get("tests"), "5")
        self.assertEqual(suite.get("failures"), "2")
        self.assertEqual(suite.get("errors"), "1")
        self.assertEqual(suite.get("skipped"), "1")
        self.assertEqual(suite.find("testcase/skipped").get("message"), "no device")
        self.assertIn("ValueError: odd", suite.find("testcase/error").get("message"))

    def test_what_xml_does_not_allow_is_escaped(self):
        text = "\x1b[31mred\x00\ud800\ufffe\t\u00e9\U0001f600\n<&>"
        outcomes = [("a.b (text='\x07')", "failure", text)]
        xml = unittest_main.to_xml(outcomes, 0.5).encode("utf-8")
        case = ElementTree.fromstring(xml).find("testsuite/testcase")
        self.assertEqual(case.get("name"), "b (text='\\x07')")
        escaped = "\\x1b[31mred\\x00\\ud800\\ufffe\t\u00e9\U0001f600\n<&>"
        self.assertEqual(case.find("failure").get("message"), escaped)


if __name__ == "__main__":
    unittest_main.main()
