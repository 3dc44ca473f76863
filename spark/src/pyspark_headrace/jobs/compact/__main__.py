"""``python -m pyspark_headrace.jobs.compact``."""

from pyspark_headrace.jobs.compact.job import JOB

if __name__ == "__main__":
    raise SystemExit(JOB.main())
