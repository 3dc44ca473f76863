"""The job `aggregate`: statistics of messages by key and time, from topics to a topic."""
