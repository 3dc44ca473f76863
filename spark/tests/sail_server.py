"""Sail's server in a process of its own: prints its port, and ends with its standard input.

In the process of its client, it would keep the interpreter to itself while it waits for the client to take rows.
"""

import sys

from pysail.spark import SparkConnectServer

server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
(_, port) = server.listening_address
print(port, flush=True)  # noqa: T201 - read by the test
sys.stdin.read()
server.stop()
