"""``python -m pyspark_headrace.jobs.migrate``."""

from pyspark_headrace.jobs.migrate.job import JOB

if __name__ == "__main__":
    raise SystemExit(JOB.main())
