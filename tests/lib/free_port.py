"""A port for processes that a test starts."""

import random
import socket

# Of its own accord Linux takes ports from 32768 on, as for any connection of another process.
_PORTS = range(20000, 32000)
_ATTEMPTS = 100


def find(address="127.0.0.1"):
    """A TCP port of `address` that nobody uses at this moment; until it is used nobody gets it who
    did not ask for it. As FindFreePort of cli/launch."""
    for port in random.sample(_PORTS, _ATTEMPTS):
        with socket.socket() as listener:
            try:
                listener.bind((address, port))
                return port
            except OSError as error:
                taken = error
    raise taken
