"""A native replica without files and peers; the test controls the order of commands."""

import json
import os
from collections import deque
from contextlib import suppress


class FakeNative:
    """Commits at once while it is the primary; its events wait until the event loop takes them."""

    def __init__(self, *, state=None, primary=0, commit_at_once=True):
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.events = deque()
        self.primary = primary
        self.commit_at_once = commit_at_once
        self.op = 0
        self.timestamp_nanos = 1_000_000_000
        self.log_ahead_ns = 0
        self.tickets = 0
        self.applied_replies = {}
        self.checkpoints = {}
        self.restored_ops = []
        self.waiting = []
        self.abdicated = self.stopped = False
        self.fail_with = None
        if state is not None:
            self.op = state[0]
            self.emit("restore", *state)

    def emit(self, *event):
        self.events.append(event)
        os.eventfd_write(self.descriptor, 1)

    def commit(self, commands):
        """Commit these as one op: (request id, encoded command) each."""
        self.op += 1
        self.timestamp_nanos += 500
        self.emit("apply", self.op, self.timestamp_nanos, list(commands))

    def commit_waiting(self):
        commands, self.waiting = self.waiting, []
        self.commit(commands)

    def start(self):
        self.emit("role", "primary" if self.primary == 0 else "backup", 1, self.primary)
        return {"address": "", "incarnation": "1", "checkpoint_op": "0", "head_op": str(self.op)}

    def fileno(self):
        return self.descriptor

    def take(self):
        with suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)
        events = list(self.events)
        self.events.clear()
        return events

    def propose_many(self, commands, since):
        if self.fail_with is not None:
            raise self.fail_with
        tickets = list(range(self.tickets + 1, self.tickets + 1 + len(commands)))
        self.tickets += len(commands)
        if self.primary != 0:
            for ticket in tickets:
                self.emit("refused", ticket, "not_primary", self.primary)
            return tickets
        self.waiting += zip(tickets, commands, strict=True)
        if self.commit_at_once:
            self.commit_waiting()
        return tickets

    def read_index(self):
        self.tickets += 1
        if self.primary != 0:
            self.emit("refused", self.tickets, "not_primary", self.primary)
        else:
            self.emit("read", self.tickets, self.op)
        return self.tickets

    def applied(self, op, replies):
        self.applied_replies[op] = replies

    def checkpoint(self, op, state):
        self.checkpoints[op] = state

    def restored(self, op):
        self.restored_ops.append(op)

    def abdicate(self):
        self.abdicated = True

    def status_json(self):
        return json.dumps(
            {
                "cluster_id": "0a",
                "role": "primary" if self.primary == 0 else "backup",
                "view": 1,
                "primary": self.primary,
                "op": self.op,
                "commit": self.op,
                "applied": self.op,
                "checkpoint_op": 0,
                "storage_full": False,
                "clock": {"state": "agreed", "unsynchronised": False, "log_ahead_ns": self.log_ahead_ns},
                "peers": [],
            }
        )

    def stop(self, timeout_seconds=10.0):
        self.stopped = True
        return True
