"""Testing kit for programs that use Headrace: real servers, fresh topics, faults, and time that is advanced.

With the package installed, pytest has the fixtures `headrace_server`, `headrace_client` and `headrace_topic`.

    >>> import headrace
    >>> from headrace.testing import LocalServer
    >>> with LocalServer() as server, headrace.connect(server.url) as client:
    ...     stream, topic = server.fresh_topic()
    ...     with client.producer(stream, topic) as producer:
    ...         _ = producer.send(b"before")
    ...     server.restart()
    ...     with client.producer(stream, topic) as producer:
    ...         producer.send(b"after").result().offset
    1
"""

from headrace.testing.network import FaultyNetwork
from headrace.testing.server import LocalServer
from headrace.testing.virtual_time import VirtualTime

__all__ = ["FaultyNetwork", "LocalServer", "VirtualTime"]
