"""Ways of running the same pipeline, which all have to keep what they promise."""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias

from tests.connectors.soak.workload import TABLES
from tests.postgresql import USER, PostgresqlServer

STREAMS: Final = ("shop", "warehouse")
SOURCE: Final = "shop"
LEASE_SECONDS: Final = 2
Kind: TypeAlias = Literal["runtime", "server", "database", "worker", "suspension", "stall"]
CHOICES: Final = {
    "guarantee": ("exactly_once", "at_least_once"),
    "states": ("file", "topic"),
    "isolation": ("task", "process"),
    "streams": ("one", "two"),
    "snapshot": ("never", "initial"),
    "flight": ("1", "8"),
    "reading": ("replication", "functions", "test_decoding"),
}
"""Values of each part of a variant; the first one is the default."""


@dataclass(frozen=True)
class Variant:
    """One way of running it. A seed draws everything but the guarantee."""

    guarantee: str = "exactly_once"
    states: str = "file"
    """State files of one process, or the topic of a group of two processes that share the connectors."""
    isolation: str = "task"
    """Connectors beside each other, or source and copy in processes of their own."""
    streams: str = "one"
    """All topics in one stream, or in two, which a batch is committed in one after the other."""
    snapshot: str = "never"
    """Tables that are empty at the start, or that have rows, which are read while others are changed."""
    flight: str = "1"
    """Number of batches that are on their way at a time; SQL functions allow one."""
    reading: str = "replication"
    """The replication protocol, SQL functions with `pgoutput`, or SQL functions with `test_decoding`."""

    @classmethod
    def chosen(cls, seed: int, options: argparse.Namespace) -> Self:
        """Return what the options say, and the seed where they are silent."""
        draw = random.Random(f"{seed}/variant")
        drawn = {name: draw.choice(values) for name, values in CHOICES.items()}
        drawn["guarantee"] = CHOICES["guarantee"][0]
        chosen = {name: getattr(options, name) or value for name, value in drawn.items()}
        if chosen["reading"] != "replication":
            chosen["flight"] = CHOICES["flight"][0]
        return cls(**chosen)

    @property
    def is_shared(self) -> bool:
        """True if two processes share the connectors."""
        return self.states == "topic"

    @property
    def is_exact(self) -> bool:
        """True if topics may not have repeated messages."""
        return self.guarantee == "exactly_once"

    @property
    def kinds(self) -> list[Kind]:
        """Return what can be killed."""
        kinds: list[Kind] = ["runtime", "server", "database"]
        if self.isolation == "process":
            kinds.append("worker")
        if self.is_shared:
            kinds += ["suspension", "stall"]
        return kinds

    @property
    def has_rows(self) -> bool:
        """True if there are rows at the start."""
        return self.snapshot == "initial"

    @property
    def topics(self) -> dict[str, str]:
        """Return the stream of each topic, which has the name of its table."""
        count = 2 if self.streams == "two" else 1
        return {table: STREAMS[number % count] for number, table in enumerate(TABLES)}

    def arguments(self) -> str:
        """Return the options of the command line."""
        return " ".join(f"--{one.name} {getattr(self, one.name)}" for one in fields(self))

    def pipeline(self, database: PostgresqlServer, files: Path) -> str:
        """Pipeline file from the shop to its copy and to files."""
        url = f"postgresql://{USER}@127.0.0.1:{database.port}"
        places = {table: f'{{ stream = "{stream}", topic = "{table}" }}' for table, stream in self.topics.items()}
        topics = ", ".join(places.values())
        names = ", ".join(f'"public.{table}"' for table in TABLES)
        routes = "\n".join(f'"public.{table}" = {place}' for table, place in places.items())
        retries = 'backoff_min = "20 ms"\nbackoff_max = "500 ms"\n'
        isolation = f'isolation = "{self.isolation}"\n'
        reading = {
            "replication": "",
            "functions": 'method = "functions"\n',
            "test_decoding": 'decoder = "test_decoding"\n',
        }[self.reading]
        flight = f"batches_in_flight = {self.flight}\n" if self.flight != "1" else ""
        sharing = f'[sharing]\ngroup = "soak"\nlease = "{LEASE_SECONDS} s"\n' if self.is_shared else ""
        return (
            f'{sharing}[sources.{SOURCE}]\nplugin = "postgres_cdc"\n{isolation}'
            f'[sources.{SOURCE}.settings]\nurl = "{url}/shop"\nslot = "shop"\n{reading}'
            f'tables = [{names}]\nsnapshot = "{self.snapshot}"\nmax_batch = "256 KiB"\n'
            f'[sources.{SOURCE}.delivery]\nguarantee = "{self.guarantee}"\n{flight}{retries}'
            f"[sources.{SOURCE}.routing.by_table]\n{routes}\n"
            f'[sinks.copy]\nplugin = "postgres"\n{isolation}topics = [{topics}]\nlinger = "50 ms"\n'
            f'[sinks.copy.settings]\nurl = "{url}/copy"\nmode = "apply_changes"\n[sinks.copy.delivery]\n{retries}'
            f'[sinks.files]\nplugin = "parquet"\ntopics = [{topics}]\nlinger = "1 s"\nbatch_size = 5000\n'
            f'[sinks.files.settings]\npath = "{files}"\n[sinks.files.delivery]\n{retries}'
        )
