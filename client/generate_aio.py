"""Write `headrace/aio/admin.py` from `headrace/sdk/admin.py`: the same calls, awaited. `--check` only compares."""

import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent / "src" / "headrace" / "sdk" / "admin.py"
TARGET = Path(__file__).parent / "src" / "headrace" / "aio" / "admin.py"

_HEAD = '''"""Calls about streams, topics, users and everything else but sending and consuming, for asyncio.

Made by `client/generate_aio.py` from `headrace.sdk.admin`: change it there.
"""
'''


def made() -> str:
    """Return the text of the module for asyncio."""
    body = SOURCE.read_text().split('"""', 2)[2].lstrip("\n")
    head, methods = body.split("class Admin(ABC):", 1)
    # The module's own function stays where it is.
    head = re.sub(r"def micros\(.*?\n\n\n", "", head, flags=re.DOTALL)
    head = head.replace(
        "from headrace.sdk.calls import", "from headrace.sdk.admin import micros\nfrom headrace.sdk.calls import"
    ).replace("from datetime import timedelta\n", "from datetime import timedelta\n")
    methods = re.sub(r"^    def ", "    async def ", methods, flags=re.MULTILINE)
    methods = re.sub(r"(return|=) self\.(call|stream|topic|group)\(", r"\1 await self.\2(", methods)
    text = f"{_HEAD}\n{head}class Admin(ABC):{methods}"
    ruff = [Path(sys.executable).with_name("ruff"), "format", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own


def main() -> int:
    """Write the module, or compare it."""
    text = made()
    if "--check" in sys.argv:
        if TARGET.read_text() != text:
            print(f"{TARGET.name} is not current: make generate", file=sys.stderr)  # noqa: T201 - a tool's message
            return 1
        return 0
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
