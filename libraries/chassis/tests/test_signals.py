"""SIGUSR1 triggers a check for new certificates at any time, and SIGTERM a stop; neither ends the process by itself."""

import asyncio
import os
import signal

from headrace_chassis.signals import Signals


class Service:
    def __init__(self):
        self.reloads = asyncio.Queue()
        self.cancellations = 0

    async def reload(self):
        self.reloads.put_nowait(None)

    def cancel_start(self):
        self.cancellations += 1


async def sent(number):
    os.kill(os.getpid(), number)
    # The signal reaches the loop over a socket.
    await asyncio.sleep(0.01)


async def test_each_signal_has_its_look():
    service = Service()
    signals = Signals(service.cancel_start)
    signals.started(service.reload)
    await asyncio.sleep(0.01)
    assert service.reloads.empty()
    for _ in range(2):
        await sent(signal.SIGUSR1)
        await asyncio.wait_for(service.reloads.get(), 30)
    assert not signals.stop.is_set()


async def test_one_that_comes_while_the_process_starts_has_its_look_as_soon_as_there_is_one():
    service = Service()
    signals = Signals(service.cancel_start)
    await sent(signal.SIGUSR1)
    await sent(signal.SIGUSR1)
    signals.started(service.reload)
    await asyncio.wait_for(service.reloads.get(), 30)


async def test_a_stop_during_the_start_cancels_it():
    service = Service()
    signals = Signals(service.cancel_start)
    await sent(signal.SIGTERM)
    await asyncio.wait_for(signals.stop.wait(), 30)
    assert service.cancellations == 1


async def test_a_stop_after_the_start_cancels_nothing():
    service = Service()
    signals = Signals(service.cancel_start)
    signals.started(service.reload)
    await sent(signal.SIGINT)
    await asyncio.wait_for(signals.stop.wait(), 30)
    assert service.cancellations == 0
