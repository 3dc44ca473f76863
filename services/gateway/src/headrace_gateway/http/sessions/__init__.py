"""Sessions that outlive a request: group members and long polls."""
