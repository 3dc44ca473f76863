"""The sink for Parquet files."""
