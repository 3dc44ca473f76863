"""``python -m pyspark_headrace.jobs.archive``."""

from pyspark_headrace.jobs.archive.job import JOB

if __name__ == "__main__":
    raise SystemExit(JOB.main())
