"""The job `archive`: topics into files of Parquet, as an archive of their own or as tables of Iceberg or Delta Lake.

Spark hands out ranges of offsets; a task reads its range, decodes it and writes the files itself, and returns what it
has written. The driver commits that, once for each micro-batch. No message becomes a row of Spark.
"""
