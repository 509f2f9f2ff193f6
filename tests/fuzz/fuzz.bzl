"""gw_fuzz_target: one source, replayed as a test on every build and searched by libFuzzer."""

load("//tools:gradwire.bzl", "gw_cc_binary", "gw_cc_test")

def gw_fuzz_target(name, srcs, deps = [], **kwargs):
    """A test `name` and, under --config=asan, a libFuzzer program `name`_search.

    Args:
      name: ends in _fuzz.
      srcs: define LLVMFuzzerTestOneInput and gradwire::fuzz::Seeds (fuzz_target.h).
      deps: what is under test.
      **kwargs: for the test.
    """
    gw_cc_test(
        name = name,
        srcs = srcs + ["//tests/fuzz:replay_test.cc"],
        deps = deps + [
            "//base:rng",
            "//tests/fuzz:fuzz_target",
        ],
        **kwargs
    )
    gw_cc_binary(
        name = name + "_search",
        testonly = True,
        srcs = srcs + ["//tests/fuzz:search_start.cc"],
        # The linker's main() is libFuzzer's; other builds have no such library.
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps + ["//tests/fuzz:fuzz_target"],
    )
