"""A rank of run_test.py: sends over TCP and prints the rate at which it received, in Mbit/s.

    ring    every rank sends 8 MB to the next one
    incast  all ranks send 8 MB in total to rank 0

    bursts  as ring, but 60 MiB, a MiB at a time with pauses

or, as `echo`, between two ranks, how long a byte takes there and back, in ms.
"""

import os
import socket
import sys
import threading
import time

_PORT = 5000
_TOTAL_BYTES = 8_000_000
_BURSTS, _BURST_BYTES = 60, 1 << 20
_PAUSE_S = 0.01


def _dial(rank):
    while True:  # until the other has started
        try:
            return socket.create_connection((f"10.77.0.{rank + 1}", _PORT))
        except ConnectionRefusedError:
            time.sleep(0.005)


def _send(connection, count):
    connection.sendall(bytes(count))
    connection.shutdown(socket.SHUT_WR)


def _receive(connection):
    """Until the other has sent everything: bytes, and the time of the first ones."""
    buffer = bytearray(1 << 18)
    total = connection.recv_into(buffer)
    start = time.monotonic()
    while count := connection.recv_into(buffer):
        total += count
    return total, start


def _echo(rank):
    server = socket.create_server(("0.0.0.0", _PORT))
    if rank:
        connection = server.accept()[0]
        while byte := connection.recv(1):
            connection.sendall(byte)
        return
    connection = _dial(1)
    times = []
    for _ in range(10):
        start = time.monotonic()
        connection.sendall(b"x")
        connection.recv(1)
        times.append(time.monotonic() - start)
    print(f"{1e3 * min(times):.3f}")


def _send_bursts(connection, _count):
    for _ in range(_BURSTS):
        connection.sendall(bytes(_BURST_BYTES))
        time.sleep(_PAUSE_S)
    connection.shutdown(socket.SHUT_WR)


def main(pattern):
    if pattern == "echo":
        return _echo(int(os.environ["RANK"]))
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    server = socket.create_server(("0.0.0.0", _PORT))
    if pattern in ("ring", "bursts"):
        target, senders, share = (rank + 1) % ranks, 1, _TOTAL_BYTES
    else:
        target = 0 if rank else None
        senders, share = (0 if rank else ranks - 1), _TOTAL_BYTES // (ranks - 1)
    out = _dial(target) if target is not None else None
    incoming = [server.accept()[0] for _ in range(senders)]
    received = [(0, 0.0)] * senders

    def receive(index):
        received[index] = _receive(incoming[index])

    threads = [threading.Thread(target=receive, args=(i,)) for i in range(senders)]
    if out:
        threads.append(threading.Thread(target=_send_bursts if pattern == "bursts" else _send,
                                        args=(out, share)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if senders:
        seconds = time.monotonic() - min(start for _, start in received)
        print(f"{sum(count for count, _ in received) * 8e-6 / seconds:.2f}")


if __name__ == "__main__":
    main(sys.argv[1])
