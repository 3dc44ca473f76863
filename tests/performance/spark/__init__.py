"""What the case of Spark works with: a session, topics, a broker of Kafka, and who spends how much CPU time."""
