"""Linearizability checker: search for an order of one key's operations that explains every response within its
interval.

The search is that of Wing and Gong with the memory of Lowe: operations are ordered one by one, choosing any whose
interval has begun before the earliest end of the remaining operations; a set of ordered operations with the state it
led to is tried once. Operations without a response stay open for ever and would multiply the search. So the checker
orders an open operation only directly before an answered operation that needs its effect: an order with an earlier
position is equivalent, as nothing in between has seen the effect. The open `lock`s are interchangeable, as are the open
`unlock`s: the one that began first is taken first, and of two paths to the same point the checker keeps the one that
used fewer of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.metadata.history import Operation, State, apply


def is_linearizable(operations: Sequence[Operation], initial: State) -> bool:
    """Check the operations of one key."""
    seen = {operation.seen.value for operation in operations if operation.seen is not None}
    answered = sorted((o for o in operations if not o.is_open), key=lambda o: o.invoked)
    writes = sorted(
        (o for o in operations if o.is_open and o.kind == "write" and o.value in seen), key=lambda o: o.invoked
    )
    toggles = {
        kind: sorted((o for o in operations if o.is_open and o.kind == kind), key=lambda o: o.invoked)
        for kind in ("lock", "unlock")
    }
    return _Search(answered, writes, toggles["lock"], toggles["unlock"]).succeeds(initial)


# Number of `answered` operations ordered without a gap, bits of ordered ones after the gap, bits of used open writes,
# and the state. The memory maps a point to the number of used open locks and unlocks.
_Point = tuple[int, int, int, State]
_Used = tuple[int, int]


class _Search:
    def __init__(
        self,
        answered: list[Operation],
        writes: list[Operation],
        locks: list[Operation],
        unlocks: list[Operation],
    ) -> None:
        self._answered = answered
        self._writes = {operation.value: (1 << index, operation) for index, operation in enumerate(writes)}
        self._locks = locks
        self._unlocks = unlocks
        self._reads: dict[str, list[int]] = {}
        for index, operation in enumerate(answered):
            if operation.seen is not None:
                self._reads.setdefault(operation.seen.value, []).append(index)

    def succeeds(self, initial: State) -> bool:
        start: _Point = (0, 0, 0, initial)
        tried: dict[_Point, list[_Used]] = {start: [(0, 0)]}
        pending: list[tuple[_Point, _Used]] = [(start, (0, 0))]
        while pending:
            point, used = pending.pop()
            if point[0] == len(self._answered):
                return True
            for following, used_then in self._steps(point, used):
                ways = tried.setdefault(following, [])
                if not any(locks <= used_then[0] and unlocks <= used_then[1] for locks, unlocks in ways):
                    ways.append(used_then)
                    pending.append((following, used_then))
        return False

    def _steps(self, point: _Point, used: _Used) -> list[tuple[_Point, _Used]]:
        base, bits, writes, state = point
        candidates, earliest_end = self._candidates(base, bits)
        plain: list[tuple[_Point, _Used]] = []
        with_open: list[tuple[_Point, _Used]] = []
        for offset in reversed(candidates):
            operation = self._answered[base + offset]
            marked = _marked(base, bits, offset)
            after = apply(state, operation)
            if after is not None and after.value != state.value and self._is_awaited(state.value, base, bits):
                continue
            if after is not None:
                plain.append(((*marked, writes, after), used))
                continue
            prepared = self._prepared(point, used, operation, earliest_end)
            if prepared is not None:
                needed, writes_then, used_then = prepared
                after = apply(needed, operation)
                if after is not None:
                    with_open.append(((*marked, writes_then, after), used_then))
        # The last entry is popped and tried first: transitions without open operations.
        return with_open + plain

    def _prepared(
        self, point: _Point, used: _Used, operation: Operation, earliest_end: float
    ) -> tuple[State, int, _Used] | None:
        """Return the state that the operation needs, reached by open operations, or `None` if they cannot reach it."""
        base, bits, writes, state = point
        needed = operation.seen or State(state.value, (operation.kind == "lock") != operation.succeeded)
        if needed.value != state.value:
            bit, write = self._writes.get(needed.value, (0, None))
            if write is None or writes & bit or write.invoked > earliest_end:
                return None
            if self._is_awaited(state.value, base, bits):
                return None
            writes |= bit
        locks, unlocks = used
        if needed.locked and not state.locked:
            if locks == len(self._locks) or self._locks[locks].invoked > earliest_end:
                return None
            locks += 1
        elif state.locked and not needed.locked:
            if unlocks == len(self._unlocks) or self._unlocks[unlocks].invoked > earliest_end:
                return None
            unlocks += 1
        return needed, writes, (locks, unlocks)

    def _is_awaited(self, value: str, base: int, bits: int) -> bool:
        """Return whether an unordered read has seen this value and no later write restores it."""
        return any(index >= base and not bits >> (index - base) & 1 for index in self._reads.get(value, ()))

    def _candidates(self, base: int, bits: int) -> tuple[list[int], float]:
        """Return the answered operations that may come next, as offsets from `base`, and the earliest end of all
        unordered ones.
        """
        earliest_end = float("inf")
        offset = 0
        found = []
        while base + offset < len(self._answered):
            operation = self._answered[base + offset]
            if operation.invoked > earliest_end:
                break
            if not bits >> offset & 1:
                found.append(offset)
                earliest_end = min(earliest_end, operation.returned)
            offset += 1
        return [offset for offset in found if self._answered[base + offset].invoked <= earliest_end], earliest_end


def _marked(base: int, bits: int, offset: int) -> tuple[int, int]:
    """Mark one operation as ordered; a prefix without a gap moves into `base`."""
    bits |= 1 << offset
    while bits & 1:
        bits >>= 1
        base += 1
    return base, bits
