"""Pipeline jobs on the data source: ``headrace-spark JOB``, or the same with ``spark-submit``."""
