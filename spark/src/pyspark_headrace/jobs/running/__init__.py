"""Framework of jobs: arguments, session, report, metrics and progress."""
