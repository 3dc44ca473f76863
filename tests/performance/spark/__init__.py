"""Support of the Spark cases: sessions, topics, a Kafka broker, and measurement of CPU time."""
