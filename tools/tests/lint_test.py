import contextlib
import io
import unittest
from unittest import mock

import check_assertions
import check_docs
import check_env
import check_hints
import check_layering
import check_titles
import check_types
import source_tree
from tools import unittest_main


class LayeringTest(unittest.TestCase):
    def expect(self, path, text, *parts):
        """One problem for each of `parts`, which must be in it."""
        problems = check_layering.find_problems(path, text)
        self.assertEqual(len(problems), len(parts), problems)
        for problem, part in zip(problems, parts):
            self.assertIn(part, problem)

    def test_upward_includes_are_flagged(self):
        self.expect("base/a.cc", '#include "compress/b.h"\n', "1: base may not include compress")
        self.expect("compress/a.cc", '\n#include "transports/b.h"\n', "2: compress may not")
        self.expect("transports/a.cc", '# include "compress/b.h"\n', "transports may not")
        self.expect("collectives/a.h", '#include "runtime/b.h"\n', "collectives may not")
        self.expect("runtime/a.h", '#include "cli/b.h"\n', "runtime may not")
        self.expect("cli/a.h", '#include "bench/b.h"\n', "cli may not")
        self.expect("runtime/a_test.cc", '#include "tests/fault/b.h"\n', "runtime may not")
        self.expect("runtime/a.cc", '#include "tests/lib/b.h"\n', "runtime may not")
        self.expect("adaptors/a.cc", '#include "runtime/b.h"\n', "adaptors may not")
        self.expect("docs/examples/a.cc", '#include "base/b.h"\n', "docs/examples may not")
        self.expect("include/gradwire/gradwire.h", '#include "base/status.h"\n', "include may not")

    def test_folders_of_the_runtime_include_those_before_them(self):
        self.expect("runtime/engine/a.cc", '#include "runtime/recorder/b.h"\n#include "runtime/b.h"\n')
        self.expect("runtime/engine/a.cc", '#include "runtime/state/b.h"\n', "runtime/engine may not")
        self.expect("runtime/a.cc", '#include "runtime/recorder/b.h"\n', "1: runtime may not")
        self.expect("runtime/engine/a_test.cc", '#include "runtime/sim/b.h"\n')

    def test_downward_includes_pass(self):
        self.expect("compress/a.cc", '#include "base/b.h"\n#include <vector>\n')
        self.expect("base/a.h", '#include "gradwire/gradwire.h"\n')
        self.expect("adaptors/mpi/a.cc", '#include <gradwire/gradwire.h>\n#include <mpi.h>\n')
        self.expect("base/a_test.cc", '#include "tests/lib/b.h"\n')
        self.expect("docs/a.cc", '#include "base/b.h"\n')
        self.expect("tests/a.cc", '#include "bench/b.h"\n#include "runtime/c.h"\n')
        self.expect("base/a.cc", '// #include "runtime/b.h"\n/*\n#include "runtime/b.h"\n*/\n')

    def test_odd_includes_are_flagged(self):
        self.expect("base/a.cc", '#include "b.h"\n', "repository's root")
        self.expect("base/a.cc", '#include "../compress/b.h"\n', "repository's root")
        self.expect("base/a.cc", "#include <compress/b.h>\n", "in quotes")
        self.expect("new_layer/a.cc", "", "is no layer")

    def test_optional_dependencies_outside_a_registry_are_flagged(self):
        self.expect("transports/a.cc", "#ifdef GRADWIRE_HAVE_UCX\n#endif\n", "GRADWIRE_HAVE_UCX")
        self.expect("base/a.cc", "#if defined(X) && \\\n  defined(USE_NCCL)\n", "USE_NCCL")
        self.expect("base/a.cc", "#if __has_include(<nccl.h>)\n", "__has_include")
        self.expect("transports/registry.cc", "#ifdef GRADWIRE_HAVE_UCX\n#endif\n")
        self.expect("base/a.h", "#ifndef GRADWIRE_BASE_CUDA_PROBE_H_\n#ifdef __CUDACC__\n")
        self.expect("base/a.h", "#ifndef NDEBUG\n#if HWY_TARGET == HWY_SCALAR\n")


class TypesTest(unittest.TestCase):
    def expect(self, first, second, *parts):
        """One problem of the second file for each of `parts`, which must be in it."""
        definitions = check_types.Definitions()
        self.assertEqual(definitions.find_problems("a.h", first), [])
        problems = definitions.find_problems("b.h", second)
        self.assertEqual(len(problems), len(parts), problems)
        for problem, part in zip(problems, parts):
            self.assertIn(part, problem)

    def test_second_definitions_are_flagged(self):
        first = "namespace gradwire {\nstruct A {\n};\n}\n"
        self.expect(first, first, "2: gradwire::A is another type in a.h")
        for head in ("class A final : public B {", "enum class A : uint8_t {",
                     "struct alignas(64) A {", "class A\n    : public B {", "union A {"):
            self.expect(first, f"\nnamespace gradwire {{\n{head}\n}};\n}}\n", "3: gradwire::A is")
        self.expect(first, "namespace gradwire {\nnamespace {\nint B() {\n}\n}\nclass A {\n};\n}\n",
                    "6: gradwire::A is")

    def test_types_of_other_places_pass(self):
        first = "namespace gradwire {\nstruct A {\n};\n}\n"
        for other in ("namespace gradwire {\nnamespace {\nstruct A {\n};\n}\n}\n",
                      "namespace other {\nstruct A {\n};\n}\n",
                      "namespace gradwire {\nnamespace other {\nstruct A {\n};\n}\n}\n",
                      "namespace gradwire {\nstruct A;\nstruct A::Impl {\n};\n}\n",
                      "namespace gradwire {\nstruct A<int> {\n};\n}\n",
                      "namespace gradwire {\n// Text:\nstruct B {\n  struct A {\n  };\n};\n}\n",
                      "/*\nnamespace gradwire {\nstruct A {\n};\n}\n*/\n"):
            self.expect(first, other)


class EnvironmentTest(unittest.TestCase):
    def test_reads_are_flagged(self):
        for read in (
            'getenv("X")',
            "std::chrono::steady_clock::now()",
            "system_clock :: now()",
            "std::random_device d;",
        ):
            problems = check_env.find_problems("base/a.cc", f"int x;\nauto y = {read};\n")
            self.assertEqual(len(problems), 1, read)
            self.assertIn("2: ", problems[0])

    def test_edges_and_comments_pass(self):
        text = 'auto x = getenv("X");'
        for path in ("runtime/a.cc", "cli/a.cc", "tests/a.cc", "base/clock.cc"):
            self.assertEqual(check_env.find_problems(path, text), [])
        self.assertEqual(len(check_env.find_problems("adaptors/a.cc", text)), 1)
        quiet = '// getenv\n/* random_device\n */ const char* s = "getenv(";'
        self.assertEqual(check_env.find_problems("base/a.cc", quiet), [])


class HintsTest(unittest.TestCase):
    def test_hints_that_begin_small_are_flagged(self):
        for code in (
            'Status(gwInvalidArgument, "no", "use fewer");',
            'Status(code, fmt::format("a {}, {}", f(b, c), "d"),\n fmt::format("choose {}", e))',
            'return Wrong("no", "set it, or not");',
            'detail.hint = "look there";',
            'std::move(s).WithHint("give it up")',
            'Status(c, {}, std::string("small"))',
            'const Status bad(c, "no", "small hint");',
            'Status(c, "no", (x > 0 ? "small " + y : "Large"))',
        ):
            problems = check_hints.find_problems("base/a.cc", "int x;\n" + code)
            self.assertEqual(len(problems), 1, code)
            self.assertIn("a hint begins with", problems[0])

    def test_others_pass(self):
        for code in (
            'Status(gwInvalidArgument, "no", "Use fewer");',
            'Status(gwInvalidArgument, "no, none");',
            'Status(gwInvalidArgument, "no", hint); f(a, b, "small")',
            'Status(c, "no", "gradwire info -c lists the settings")',
            'Status(c, "no", "ucx_info -d lists what there is")',
            '// Status(c, "no", "small")',
        ):
            self.assertEqual(check_hints.find_problems("base/a.cc", code), [], code)
        small = 'Status(c, "no", "small");'
        self.assertEqual(check_hints.find_problems("base/a_test.cc", small), [])


class AssertionsTest(unittest.TestCase):
    def test_tests_without_an_assertion_are_flagged(self):
        text = "TEST(A, B) {\n  if (x) { y(); }\n}\nTEST(C, D) { EXPECT_EQ(1, 1); }\n"
        problems = check_assertions.find_problems("a_test.cc", text)
        self.assertEqual(problems, ["1: A.B asserts nothing"])
        for kind in ("TEST_F", "TEST_P", "TYPED_TEST", "TYPED_TEST_P"):
            text = kind + '(\n  A, B) { f("}"); // EXPECT_EQ(1, 1)\n }'
            self.assertEqual(len(check_assertions.find_problems("a_test.cc", text)), 1, kind)
        skip = 'TEST(A, B) { GTEST_SKIP() << "EXPECT_TRUE("; }'
        self.assertEqual(len(check_assertions.find_problems("a_test.cc", skip)), 1)

    def test_calls_for_their_value_are_no_assertions(self):
        for body in ("(void)CheckedResult(nullptr, 0);", "if (CheckEntry()) {}",
                     "CheckedResult(x);", "const Status s = CheckSpec(x);", "(void)CheckSpec(x);",
                     "if (x) (void)CheckSpec(x);", "f(ExpectedBytes(8));", "return CheckSpec(x);",
                     "while (ready(CheckSpec(x))) Step();", "Expected();",
                     "static_cast<void>(CheckSpec(x));", "x = y ? 1 : CheckSpec(x);",
                     "for (int i : CheckAll(x)) {}", "CheckSpec(x).ok();", "!CheckSpec(x);"):
            text = f"TEST(A, B) {{ int x = 1; {body} }}"
            self.assertEqual(len(check_assertions.find_problems("a_test.cc", text)), 1, body)

    def test_assertions_and_helpers_pass(self):
        for body in ("ASSERT_TRUE(x);", "ExpectSame(x);", "CheckAll<int>(x);", "if (x) FAIL();",
                     "int i;\n  Check({.n = f(i)});", "for (int n : {1, 2}) ExpectSame(n);",
                     "for (int i = 0; i < f(2); ++i) Check(i);", "if (x) {} else ExpectSame(x);",
                     "if constexpr (x) Check(x);", "world.Check();", "ends_[k(0)]->CheckTimes();",
                     "lib::ExpectSame(x);", "Run([&] { ExpectSame(x); });",
                     "do Check(x); while (x);"):
            text = f"TEST(A, B) {{ for (char c : {{'{{', 'x'}}) {{ {body} }} }}"
            self.assertEqual(check_assertions.find_problems("a_test.cc", text), [], body)

    def test_a_test_file_without_tests_is_flagged(self):
        self.assertEqual(len(check_assertions.find_problems("a_test.cc", "int f();")), 1)
        self.assertEqual(check_assertions.find_problems("a_test.cc", "int main() {}"), [])


class TitlesTest(unittest.TestCase):
    def test_bad_titles_are_flagged(self):
        for title in (
            "Add a thing",
            "stuff: Add a thing",
            "base: add a thing",
            "base: Added a thing",
            "base: Fixes it",
            "base: Add a thing.",
            "base Add a thing",
            "base: Add",
            "base: Add " + "x" * 51,
        ):
            self.assertTrue(check_titles.find_problems(title), title)

    def test_good_titles_pass(self):
        for title in ("base: Add a thing", "compress/codecs: Fix x", "ci: Use y 2.0"):
            self.assertEqual(check_titles.find_problems(title), [])
        self.assertEqual(check_titles.find_problems("base: Add " + "x" * 50), [])


class DocsTest(unittest.TestCase):
    _TITLES = {"0123abc" + "0" * 33: "docs: Add a page"}

    def problems(self, text):
        """Of the page docs/a.md, beside which there is only docs/b.md."""
        pages = {"docs/a.md": text, "docs/b.md": "# `One`, [two](c.md)\n", "docs/../README.md": ""}
        return check_docs.find_problems("docs/a.md", text, pages.get, self._TITLES)

    def test_dead_links_are_flagged(self):
        for link in ("c.md", "c.md#part", "docs/b.md", "b.md#one", "#one"):
            (problem,) = self.problems(f"Words.\n[more]({link})\n")
            self.assertIn("2: ", problem)

    def test_lost_commits_are_flagged(self):
        for text in ("`1123abc`", "`git show 1123abc`", "`git show 1123abc -- docs`",
                     '`0123abc`, "docs: Add pages"'):
            self.assertEqual(len(self.problems(text)), 1, text)

    def test_what_is_there_passes(self):
        for text in ("[b](b.md) [c](b.md#one-two) [d](../README.md)", "[e](https://e.org#f)",
                     "## A part\n[g](#a-part)",
                     "```c\na[i](x);\n```\n", "`0123abc` `git show 0123abc -- docs`",
                     '`0123abc`, "docs: Add\na page"', "`--elems 1000000` `1000000`"):
            self.assertEqual(self.problems(text), [], text)


class SourceTreeTest(unittest.TestCase):
    def test_comments_and_strings_keep_their_lines(self):
        text = 'a /* b\n c */ "d // e" // f\nR"x(g\n)" h)x" i 1\'000\'000 \'"\' j'
        code = source_tree.without_comments(text)
        self.assertEqual(code.count("\n"), text.count("\n"))
        self.assertEqual(code.split(), ["a", "i", "1'000'000", "j"])

    def run_check(self, paths, problems):
        with mock.patch.object(source_tree, "files", return_value=paths), mock.patch.object(
            source_tree, "read", return_value=""
        ), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return source_tree.run_check("x", (".cc",), lambda path, text: problems)

    def test_a_check_fails_on_problems_and_on_nothing(self):
        self.assertEqual(self.run_check(["a.cc"], []), 0)
        self.assertEqual(self.run_check(["a.cc"], ["1: bad"]), 1)
        self.assertEqual(self.run_check([], []), 1)


if __name__ == "__main__":
    unittest_main.main()
