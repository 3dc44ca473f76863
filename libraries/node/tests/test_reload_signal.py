"""SIGUSR1 triggers a check for new certificates at any time, and never ends the process."""

import asyncio
import os
import signal

from headrace_node.edge import ReloadSignal


class Certificates:
    def __init__(self):
        self.looked_at = asyncio.Queue()

    async def reload(self):
        self.looked_at.put_nowait(None)


async def sent():
    os.kill(os.getpid(), signal.SIGUSR1)
    # The signal reaches the loop over a socket.
    await asyncio.sleep(0.01)


async def test_each_signal_has_its_look():
    certificates, reload_signal = Certificates(), ReloadSignal()
    reload_signal.calls(certificates.reload)
    await asyncio.sleep(0.01)
    assert certificates.looked_at.empty()
    for _ in range(2):
        await sent()
        await asyncio.wait_for(certificates.looked_at.get(), 30)


async def test_one_that_comes_while_the_process_starts_has_its_look_as_soon_as_there_is_one():
    certificates, reload_signal = Certificates(), ReloadSignal()
    await sent()
    await sent()
    reload_signal.calls(certificates.reload)
    await asyncio.wait_for(certificates.looked_at.get(), 30)
