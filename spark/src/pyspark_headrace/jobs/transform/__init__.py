"""The job `transform`: applies an SQL query to each message, from topics to a topic."""
