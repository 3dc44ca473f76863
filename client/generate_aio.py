"""Write `headrace/aio/admin.py`, which git does not have, from `headrace/sdk/admin.py`: the same calls, awaited.

`make` runs it if the source has changed, and the build of the distribution always does. It needs nothing but Python.
"""

import os
import re
from pathlib import Path

SOURCE = Path(__file__).parent / "src" / "headrace" / "sdk" / "admin.py"
TARGET = Path(__file__).parent / "src" / "headrace" / "aio" / "admin.py"

_HEAD = '''"""Calls about streams, topics, users and everything else but sending and consuming, for asyncio.

Made by `client/generate_aio.py` from `headrace.sdk.admin`: change it there.
"""
'''


def made() -> str:
    """Return the text of the module for asyncio."""
    body = SOURCE.read_text(encoding="utf-8").split('"""', 2)[2].lstrip("\n")
    head, methods = body.split("class Admin(ABC):", 1)
    # The module's own function stays where it is.
    head = re.sub(r"def micros\(.*?\n\n\n", "", head, flags=re.DOTALL)
    head = head.replace(
        "from headrace.sdk.calls import", "from headrace.sdk.admin import micros\nfrom headrace.sdk.calls import"
    )
    methods = re.sub(r"^    def ", "    async def ", methods, flags=re.MULTILINE)
    methods = re.sub(r"(return|=) self\.(call|stream|topic|group)\(", r"\1 await self.\2(", methods)
    return f"{_HEAD}\n{head}class Admin(ABC):{methods}"


def main() -> None:
    """Write the module."""
    # Whole or not there: another process may import it meanwhile.
    unfinished = TARGET.with_name(f"{TARGET.name}.{os.getpid()}.unfinished")
    unfinished.write_text(made(), encoding="utf-8")
    unfinished.replace(TARGET)


if __name__ == "__main__":
    main()
