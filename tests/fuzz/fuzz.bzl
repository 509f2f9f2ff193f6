"""gw_fuzz_target: one source, replayed as a test on every build and searched by libFuzzer."""

load("//tools:gradwire.bzl", "gw_cc_binary", "gw_cc_test")

def gw_fuzz_target(name, srcs, deps = [], local_defines = [], **kwargs):
    """A test `name` and, under --config=asan, a libFuzzer program `name`_search.

    What is kept in corpus/`name` is replayed too.

    Args:
      name: ends in _fuzz.
      srcs: define LLVMFuzzerTestOneInput and gradwire::fuzz::Seeds (fuzz_target.h).
      deps: what is under test.
      local_defines: of both.
      **kwargs: for the test.
    """
    kept = native.glob(["corpus/%s/*" % name])
    gw_cc_test(
        name = name,
        srcs = srcs + ["//tests/fuzz:replay_test.cc"],
        data = kept,
        deps = deps + [
            "//base:rng",
            "//tests/fuzz:corpus",
            "//tests/fuzz:fuzz_target",
            "//tests/lib:sanitized",
        ],
        local_defines = local_defines + [
            'GRADWIRE_FUZZ_CORPUS=\\"%s/corpus/%s\\"' % (native.package_name(), name),
            "GRADWIRE_FUZZ_KEPT=%d" % len(kept),
        ],
        **kwargs
    )
    gw_cc_binary(
        name = name + "_search",
        testonly = True,
        srcs = srcs + ["//tests/fuzz:search_start.cc"],
        # The linker's main() is libFuzzer's; other builds have no such library.
        linkopts = ["-fsanitize=fuzzer"],
        local_defines = local_defines,
        tags = ["manual"],
        deps = deps + [
            "//tests/fuzz:corpus",
            "//tests/fuzz:fuzz_target",
        ],
    )

def gw_check_corpus():
    """Behind all targets: fails where a folder of corpus/ is of none of them and nobody reads it."""
    rules = native.existing_rules()
    for path in native.glob(["corpus/**"]):
        if path.split("/")[1] not in rules:
            fail("%s: there is no such target" % path)
