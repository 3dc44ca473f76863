"""What tasks are told of object stores: where they are. Who asks is found out where it is asked.

Variables of this process that say which store is meant are those of tasks, too. Tasks of a driver whose variables say
something else would write files to another store than the one in which the driver commits them. Credentials are never
handed on: what goes out with tasks can be seen in Spark's files and pages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE: Final = "OBJECT_STORE_PATIENCE"
"""For how long a request is repeated that a store does not answer, like ``30s``."""
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
    PATIENCE,
)
"""None of them is a secret."""


@contextmanager
def handed_on(spark: SparkSession) -> Iterator[None]:
    """Have tasks that are planned meanwhile see these variables, but for those that Spark's configuration names.

    That is ``spark.executorEnv.<variable>``.
    """
    environment = spark.sparkContext.environment
    given = {name: os.environ[name] for name in NAMES if name in os.environ and name not in environment}
    environment.update(given)
    try:
        yield
    finally:
        for name in given:
            environment.pop(name, None)
