"""Repository rules that find what the machine has installed. Nothing is downloaded."""

_LIB_DIRS = ["/usr/lib/%s-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"]

def _library_exists(rctx, machine, folders, lib):
    for folder in folders:
        stem = folder.replace("%s", machine) + "/lib" + lib
        if rctx.path(stem + ".so").exists or rctx.path(stem + ".a").exists:
            return True
    return False

def _system_library_impl(rctx):
    attr = rctx.attr
    machine = rctx.execute(["uname", "-m"]).stdout.strip()
    include_dir = attr.include_dir.replace("%s", machine)
    lib_dir = attr.lib_dir.replace("%s", machine)
    lib_dirs = [lib_dir] if lib_dir else _LIB_DIRS
    missing = [h for h in attr.headers if not rctx.path(include_dir + "/" + h).exists]
    missing += ["lib" + l for l in attr.libs if not _library_exists(rctx, machine, lib_dirs, l)]
    if missing and not attr.optional:
        fail("\n\n%s not found. Install it with\n    apt-get install %s\n(./run does that by itself.)\n" %
             (", ".join(missing), attr.apt))

    # The compiler sees /usr/include by itself. Any other folder is linked in here.
    hdrs, includes = [], []
    if not missing and include_dir != "/usr/include":
        rctx.symlink(include_dir, "include")
        hdrs, includes = ["include/**"], ["include"]
    # Debian's notice of a package; in Debian's small images, too.
    notice = rctx.path("/usr/share/doc/%s/copyright" % attr.apt)
    notice_name = rctx.name[len("local_"):] + ".txt"
    if notice.exists:
        rctx.symlink(notice, notice_name)
    linkopts = [] if missing else ["-l" + l for l in attr.libs]
    if linkopts and lib_dir:
        linkopts = ["-L" + lib_dir] + linkopts
    rctx.file("defs.bzl", "FOUND = %r\n" % (not missing))
    rctx.file("BUILD", """
cc_library(
    name = "lib",
    hdrs = glob(%r),
    includes = %r,
    linkopts = %r,
    visibility = ["//visibility:public"],
)

exports_files([%r])
""" % (hdrs, includes, linkopts, notice_name))

system_library = repository_rule(
    doc = """A library from the distribution as @local_NAME//:lib, its copyright notice as NAME.txt, and
FOUND in defs.bzl.

A missing required library fails the build naming its apt package; a missing optional
one leaves an empty library and FOUND = False.""",
    implementation = _system_library_impl,
    local = True,
    attrs = {
        "apt": attr.string(mandatory = True, doc = "package(s) that install it"),
        "headers": attr.string_list(mandatory = True, doc = "must exist, relative to include_dir"),
        "include_dir": attr.string(default = "/usr/include", doc = "%s: the machine, as x86_64"),
        "lib_dir": attr.string(doc = "where libs are, if the linker does not look there; %s likewise"),
        "libs": attr.string_list(doc = "linked as -lNAME"),
        "optional": attr.bool(default = False),
    },
)

# Code for each of these is built as machine code and as PTX, which covers newer devices.
_WANTED_ARCHS = ["75", "90"]
_OLDEST_CUDA = 12  # the first whose nvcc takes -std=c++20

def _release(version_text):
    """"... Cuda compilation tools, release 13.0, V13.0.48 ..." -> 13; 0 when not understood."""
    _, _, rest = version_text.partition("release ")
    major = rest.partition(".")[0]
    return int(major) if major.isdigit() else 0

def _cuda_toolkit_impl(rctx):
    env = rctx.os.environ
    root = env.get("CUDA_HOME", "/usr/local/cuda")
    nvcc = root + "/bin/nvcc"
    found = env.get("GRADWIRE_CUDA", "1") != "0" and rctx.path(nvcc).exists
    archs = []
    if found:
        found = _release(rctx.execute([nvcc, "--version"]).stdout) >= _OLDEST_CUDA
        known = rctx.execute([nvcc, "--list-gpu-arch"]).stdout.split("\n")
        archs = [a for a in _WANTED_ARCHS if "compute_" + a in known]
    linkopts = []
    if found:
        rctx.symlink(root + "/include", "include")
        runtime = "cudart_static" if rctx.path(root + "/lib64/libcudart_static.a").exists else "cudart"
        linkopts = ["-L%s/lib64" % root, "-l" + runtime, "-ldl", "-lrt", "-lpthread"]
    rctx.file("defs.bzl", "CUDA_FOUND = %r\nNVCC = %r\nCUDA_ARCHS = %r\n" % (found, nvcc, archs))

    # For host sources. nvcc finds its own headers, so that thousands of files need not
    # be laid out for each action.
    rctx.file("BUILD", """
cc_library(
    name = "cudart",
    hdrs = glob(["include/*.h", "include/*.hpp", "include/crt/**"], allow_empty = True),
    includes = %r,
    linkopts = %r,
    visibility = ["//visibility:public"],
)
""" % (["include"] if found else [], linkopts))

cuda_toolkit = repository_rule(
    doc = """The CUDA toolkit in $CUDA_HOME (/usr/local/cuda), or CUDA_FOUND = False.

GRADWIRE_CUDA=0 leaves it out (--config=nocuda).""",
    implementation = _cuda_toolkit_impl,
    local = True,
    environ = [
        "CUDA_HOME",
        "GRADWIRE_CUDA",
    ],
)
