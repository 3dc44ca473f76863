"""``python -m pyspark_headrace.jobs.audit``."""

from pyspark_headrace.jobs.audit.job import JOB

if __name__ == "__main__":
    raise SystemExit(JOB.main())
