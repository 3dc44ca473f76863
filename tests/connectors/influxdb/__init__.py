"""Points of InfluxDB servers into topics: `test_query`."""
