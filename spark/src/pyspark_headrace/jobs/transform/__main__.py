"""``python -m pyspark_headrace.jobs.transform``."""

from pyspark_headrace.jobs.transform.job import JOB

if __name__ == "__main__":
    raise SystemExit(JOB.main())
