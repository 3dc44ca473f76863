"""The source `influxdb_query`: points of a server, in InfluxQL or in Flux."""
