"""Running connectors: delivery, commits, status, supervision."""
