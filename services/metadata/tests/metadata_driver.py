"""A state machine that tests give commands to."""

from headrace_metadata.state_machine import StateMachine


class Driver:
    """A machine with the clock in hand."""

    def __init__(self):
        self.machine = StateMachine()
        self.now = 1_000_000

    def __call__(self, *commands):
        """Have all of them applied; returns what became of the last one."""
        for command in commands:
            done = self._apply(command)
            assert done.reply.status == 0, command
        return done

    def status(self, command):
        """A command that is refused has done nothing."""
        done = self._apply(command)
        assert done.update is None or done.reply.status == 0
        return done.reply.status

    def _apply(self, command):
        self.now += 1
        return self.machine.apply(self.machine.op + 1, self.now, command)
