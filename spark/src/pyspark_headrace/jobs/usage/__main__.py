"""``python -m pyspark_headrace.jobs.usage``."""

from pyspark_headrace.jobs.usage.job import JOB

if __name__ == "__main__":
    raise SystemExit(JOB.main())
