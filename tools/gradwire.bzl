"""The project's cc rules: common flags, visibility by layer, one way to link tests."""

GW_COPTS = [
    "-Wall",
    "-Wextra",
    # Designated initialisers that leave the defaults alone are the house style.
    "-Wno-missing-field-initializers",
    "-Werror=switch",
    "-Werror=return-type",
    # clang refuses it always, gcc only warns.
    "-Werror=narrowing",
    "-Wmissing-declarations",
    "-fvisibility=hidden",
    # The same bits on every machine: no fused multiply-add behind our back.
    "-ffp-contract=off",
    "-fno-fast-math",
]

def _layer_visibility(visibility):
    """A package is visible to the layers above its own; see the root BUILD."""
    if visibility != None:
        return visibility
    return ["//:users_of_" + native.package_name().split("/")[0]]

def gw_cc_library(name, copts = [], visibility = None, **kwargs):
    """cc_library with the project's flags.

    Args:
      name: the library.
      copts: further flags, after the common ones.
      visibility: the layers above, unless given.
      **kwargs: for cc_library.
    """
    native.cc_library(
        name = name,
        copts = GW_COPTS + copts,
        visibility = _layer_visibility(visibility),
        **kwargs
    )

def gw_simd_kernels(name, simd_srcs, srcs, deps = [], textual_hdrs = [], unroll = True, **kwargs):
    """Kernels for every SIMD target with their scalar reference.

    Args:
      name: the library.
      simd_srcs: sources that Highway includes once per target.
      srcs: the other sources, among them the reference.
      deps: besides what all kernels need.
      textual_hdrs: headers that simd_srcs include once per target.
      unroll: gcc does not unroll loops of 16 rounds by itself: a quarter of the speed of decoding.
      **kwargs: for gw_cc_library.
    """
    gw_cc_library(
        name = name,
        srcs = srcs + simd_srcs,
        copts = ["-funroll-loops"] if unroll else [],
        textual_hdrs = textual_hdrs + simd_srcs,
        deps = [
            "//base:dtype",
            "//compress/kernels:dispatch",
            "//compress/kernels:kernel_job",
            "//compress/kernels:run",
            "//compress/kernels:scalar_ref",
        ] + deps,
        **kwargs
    )

def gw_cc_binary(name, copts = [], visibility = None, **kwargs):
    """cc_binary with the project's flags.

    With linkshared = True only libraries that say alwayslink = True are exported.

    Args:
      name: the binary.
      copts: further flags, after the common ones.
      visibility: public, unless given.
      **kwargs: for cc_binary.
    """
    native.cc_binary(
        name = name,
        copts = GW_COPTS + copts,
        visibility = ["//visibility:public"] if visibility == None else visibility,
        **kwargs
    )

def gw_cc_test(name, copts = [], deps = [], main = "//tests/lib:gtest_main", size = "small", tags = [], **kwargs):
    """cc_test with GoogleTest and the project's main.

    Tags: "threads" where the test makes a thread: those run under ThreadSanitizer, and main()
    fails the others if they make one. "no-asan", "no-tsan" leave it out of a sanitizer's run;
    "exclusive" for tests that measure time or take the machine; "external" for those that run each
    time, where results of before count for nothing.

    Args:
      name: the test.
      copts: further flags, after the common ones.
      deps: without GoogleTest, which comes with main.
      main: the library with main(); None where the test has its own.
      size: small unless given.
      tags: see above.
      **kwargs: for cc_test.
    """
    native.cc_test(
        name = name,
        copts = GW_COPTS + copts,
        deps = deps + (["//third_party:gtest"] if main == None else [main]),
        env = {} if "threads" in tags else {"GRADWIRE_ONE_THREAD": "1"},
        size = size,
        tags = tags,
        **kwargs
    )

def gw_py_test(name, srcs, deps = [], size = "small", **kwargs):
    """py_test whose cases are counted one by one; the test file ends in unittest_main.main().

    Args:
      name: the test.
      srcs: one file, called like the test.
      deps: py_library targets, imported from the repository's root.
      size: small unless given.
      **kwargs: for py_test.
    """
    native.py_test(
        name = name,
        srcs = srcs,
        deps = deps + ["//tools:unittest_main"],
        main = srcs[0],
        python_version = "PY3",
        size = size,
        **kwargs
    )
