"""Tests that need more than one part: imported by name, so that `python -m tests.journeys.flights.demo` works too."""
