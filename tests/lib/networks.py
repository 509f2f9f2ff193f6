"""For tests that make networks."""

import subprocess


def can_make():
    """Whether this process may make network namespaces, as `gradwire run --netlab` does."""
    # Left as it is, propagation also works where the root folder is no mount point (chroot).
    probe = ["unshare", "--net", "--mount", "--propagation", "unchanged", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0
