"""A state machine driven by tests."""

from headrace_metadata.state_machine import StateMachine


class Driver:
    """A machine with a clock controlled by the test."""

    def __init__(self):
        self.machine = StateMachine()
        self.now = 1_000_000

    def __call__(self, *commands):
        """Apply all commands; return the result of the last one."""
        for command in commands:
            done = self._apply(command)
            assert done.reply.status == 0, command
        return done

    def status(self, command):
        """Return the status of a command; check that a refused one has no effect."""
        done = self._apply(command)
        assert done.update is None or done.reply.status == 0
        return done.reply.status

    def _apply(self, command):
        self.now += 1
        return self.machine.apply(self.machine.op + 1, self.now, command)
