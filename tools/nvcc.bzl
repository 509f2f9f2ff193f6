"""cuda_library: CUDA sources where nvcc is, a stub where it is not."""

load("@local_cuda//:defs.bzl", "CUDA_ARCHS", "CUDA_FOUND", "NVCC")
load("//tools:gradwire.bzl", "gw_cc_library")

# Without fused multiply-add, so that host and device decode to the same bits.
_FLAGS = [
    "-c",
    "-std=c++20",
    "-O3",
    "-fmad=false",
    "-Xcompiler=-fPIC,-fvisibility=hidden,-ffp-contract=off,-Wall",
    "--expt-relaxed-constexpr",
]

def _cuda_objects_impl(ctx):
    contexts = [d[CcInfo].compilation_context for d in ctx.attr.deps]
    headers = depset(ctx.files.hdrs, transitive = [c.headers for c in contexts])
    quote = depset(transitive = [c.quote_includes for c in contexts])
    include = depset(transitive = [c.includes for c in contexts] +
                                  [c.system_includes for c in contexts])
    defines = depset(transitive = [c.defines for c in contexts])
    objects = []
    for src in ctx.files.srcs:
        obj = ctx.actions.declare_file("%s_objects/%s.o" % (ctx.label.name, src.basename))
        args = ctx.actions.args()
        args.add_all(_FLAGS)
        for arch in CUDA_ARCHS:
            args.add("-gencode=arch=compute_%s,code=[sm_%s,compute_%s]" % (arch, arch, arch))
        args.add("-I.")
        args.add_all(quote, before_each = "-I")
        args.add_all(include, before_each = "-I")
        args.add_all(defines, before_each = "-D")
        args.add_all(ctx.attr.copts)
        args.add(src)
        args.add("-o", obj)
        ctx.actions.run(
            outputs = [obj],
            inputs = depset([src], transitive = [headers]),
            executable = NVCC,
            arguments = [args],
            mnemonic = "Nvcc",
            progress_message = "Compiling %s with nvcc" % src.short_path,
            use_default_shell_env = True,
        )
        objects.append(obj)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "srcs": attr.label_list(allow_files = [".cu"]),
    },
)

def cuda_library(name, srcs, stub_srcs, hdrs = [], deps = [], copts = [], **kwargs):
    """A library from `srcs` (.cu, compiled by nvcc) or, without CUDA, from `stub_srcs` (.cc).

    Both define everything that `hdrs` declare, so that users need no #ifdef. The
    CUDA runtime is linked statically. --copt does not reach nvcc.

    Args:
      name: the library.
      srcs: .cu files.
      stub_srcs: .cc files used instead.
      hdrs: headers shared by both; .cuh headers for the .cu files too.
      deps: libraries both need.
      copts: further flags for nvcc.
      **kwargs: for gw_cc_library.
    """
    if not CUDA_FOUND:
        gw_cc_library(name = name, srcs = stub_srcs, hdrs = hdrs, deps = deps, **kwargs)
        return
    _cuda_objects(
        name = name + "_cuda",
        srcs = srcs,
        hdrs = hdrs,
        copts = copts,
        deps = deps,
        visibility = ["//visibility:private"],
    )
    gw_cc_library(
        name = name,
        srcs = [":" + name + "_cuda"],
        hdrs = hdrs,
        deps = deps + ["@local_cuda//:cudart"],
        **kwargs
    )
