"""The job `dedupe`: copies messages of topics to a topic, without duplicates."""
