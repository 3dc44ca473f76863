"""The job `transform`: a query of SQL on each message, from topics to a topic."""
