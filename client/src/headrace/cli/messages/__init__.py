"""Reading and sending of messages."""
