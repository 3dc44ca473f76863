from __future__ import annotations

from tests.apis.http.conftest import anonymous, reach, root  # noqa: F401 - for the tests here, too
