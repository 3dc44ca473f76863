"""The job `aggregate`: figures of messages by key and time, from topics to a topic."""
