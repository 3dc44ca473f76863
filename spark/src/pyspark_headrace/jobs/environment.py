"""Environment of tasks for object stores: locations only. Each process obtains its own credentials.

Variables of this process that select a store are passed on to tasks. Otherwise tasks would write files to another store
than the one in which the driver commits them. Credentials are never passed on: whatever is sent to tasks is visible in
the files and pages of Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETRY_TIMEOUT: Final = "OBJECT_STORE_RETRY_TIMEOUT"
"""Time for which requests to an unresponsive store are retried, like ``30s``."""
NAMES: Final = (
    "AWS_ALLOW_HTTP",
    "AWS_CONDITIONAL_PUT",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ENDPOINT",
    RETRY_TIMEOUT,
)
"""Variables that are passed on. None of them is secret."""


@contextmanager
def handed_on(spark: SparkSession) -> Iterator[None]:
    """Pass these variables to tasks planned within the block, except for those set by Spark's configuration.

    The configuration sets them as ``spark.executorEnv.<variable>``.
    """
    environment = spark.sparkContext.environment
    given = {name: os.environ[name] for name in NAMES if name in os.environ and name not in environment}
    environment.update(given)
    try:
        yield
    finally:
        for name in given:
            environment.pop(name, None)
