"""The command `gradwire`, which is packed beside the library."""

import os
import sys

# Not from _library: the command needs no library.
_COMMAND = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native", "gradwire")


def main():
    sys.stdout.flush()
    os.execv(_COMMAND, ["gradwire", *sys.argv[1:]])


if __name__ == "__main__":
    main()
