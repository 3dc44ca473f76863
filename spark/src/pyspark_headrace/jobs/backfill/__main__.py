"""``python -m pyspark_headrace.jobs.backfill``."""

from pyspark_headrace.jobs.backfill.job import JOB

if __name__ == "__main__":
    raise SystemExit(JOB.main())
