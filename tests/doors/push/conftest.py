from __future__ import annotations

from tests.doors.http.conftest import nobody, reach, root  # noqa: F401 - for the tests here, too
