"""The Python of Spark in tests: some processes that Spark starts are forked from one that has imported Spark.

Spark starts a Python for each query of a stream, and one for each kind of work of a data source. Each imports Spark's
Python, numpy and pyarrow, which takes 1.6 s of CPU time: a third of the CPU time of the suite. `make setup-spark`
writes a script that runs this file by its path. The file uses only the standard library because every start runs it.
Without the variable `SPARK_TESTS_FORKS`, and for all other processes, it executes the Python of the environment.
"""

import json
import os
import socket
import sys
from pathlib import Path

SOCKET_VARIABLE = "SPARK_TESTS_FORKS"
"""Path of the socket on which a fork server listens: `tests/fork_server.py`."""
_FORKED = {
    "pyspark.daemon",
    "pyspark_headrace.daemon",
    "pyspark.sql.streaming.python_streaming_source_runner",
}
_NUMBER_BYTES = 4


def main(arguments: list[str]) -> int:
    """Have the process forked and wait for its end, or execute Python."""
    where = os.environ.get(SOCKET_VARIABLE)
    if where is None or arguments[:1] != ["-m"] or arguments[1] not in _FORKED:
        os.execv(sys.executable, [sys.executable, *arguments])
    request = json.dumps([arguments[1], arguments[2:], dict(os.environ), str(Path.cwd())]).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(where)
        socket.send_fds(connection, [request], [0, 1, 2])
        # The child owns the standard streams now: their readers must see the end of file when the child exits.
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        connection.recv(_NUMBER_BYTES)
        status = int.from_bytes(connection.recv(_NUMBER_BYTES), "little", signed=True)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
