"""Topic descriptions for tests without a server."""

from __future__ import annotations

from pyspark_headrace.cluster.description import Description, Openings, Partition, Topic


def partition(
    number: int,
    first: int,
    following: int,
    *,
    incarnation: int = 0,
    epoch: int = 0,
    size: int = 100,
    openings: Openings = (),
) -> Partition:
    return Partition(
        number,
        incarnation or 10 + number,
        epoch,
        first,
        following,
        following - first,
        size * (following - first),
        "n:1",
        openings,
    )


def topic(name: str, *partitions: Partition, incarnation: int = 7) -> Topic:
    return Topic("shop", name, 0, 1, incarnation, partitions)


def described(*topics: Topic) -> Description:
    return Description({found.name: found for found in topics})
