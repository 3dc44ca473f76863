"""Sources of InfluxDB: its line protocol over HTTP, and the points of a server."""
