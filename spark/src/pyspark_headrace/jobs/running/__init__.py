"""How a job is run: its arguments, its session, its report, and what is seen of it meanwhile."""
