"""``python -m pyspark_headrace.jobs.aggregate``."""

from pyspark_headrace.jobs.aggregate.job import JOB

if __name__ == "__main__":
    raise SystemExit(JOB.main())
