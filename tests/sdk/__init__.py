"""The Python SDK against real servers, calls that wait and calls that are awaited from one table."""
