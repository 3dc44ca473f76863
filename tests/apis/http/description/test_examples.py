"""The examples of docs/http.md work unchanged (GW-4)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.server_process import ServerProcess

PAGE = Path(__file__).parents[4] / "docs/http.md"


def test_every_example_works(server: ServerProcess, tmp_path: Path) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    script = "\n".join(f"{block}\necho; echo '== {number}'" for number, block in enumerate(blocks))
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("http://127.0.0.1:3000", server.http_url)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    for number in range(len(blocks)):
        assert f"== {number}\n" in result.stdout
    assert '"name":"orders"' in result.stdout
    assert '"stored_offset":' in result.stdout
    assert '"id":1012' in result.stdout
    assert '"status":409' in result.stdout
