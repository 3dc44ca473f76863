"""``python -m pyspark_headrace.jobs.dedupe``."""

from pyspark_headrace.jobs.dedupe.job import JOB

if __name__ == "__main__":
    raise SystemExit(JOB.main())
