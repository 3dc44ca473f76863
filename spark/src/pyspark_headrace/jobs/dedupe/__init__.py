"""The job `dedupe`: messages of topics without those that were there before, to a topic."""
