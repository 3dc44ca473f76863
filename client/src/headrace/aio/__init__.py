"""Headrace for asyncio: the same clients, producers and consumers as in `headrace`, whose calls are awaited.

Import messages, options and exceptions from `headrace`.

    >>> import asyncio
    >>> import headrace.aio
    >>> async def tour():
    ...     async with headrace.aio.connect("headrace+embedded://") as client:
    ...         await client.create_stream("shop")
    ...         await client.create_topic("shop", "orders", partitions=2)
    ...         async with client.producer("shop", "orders") as producer:
    ...             await producer.send(b"hello", key=b"customer-7")
    ...         async with client.consumer("shop", "orders", group="billing") as consumer:
    ...             async for message in consumer:
    ...                 return message.payload
    >>> asyncio.run(tour())
    b'hello'
"""

from headrace.aio.client import Client, connect
from headrace.aio.consumer import Consumer
from headrace.aio.direct import DirectProducer
from headrace.aio.producer import Deliveries, Delivery, Producer

__all__ = ["Client", "Consumer", "Deliveries", "Delivery", "DirectProducer", "Producer", "connect"]
