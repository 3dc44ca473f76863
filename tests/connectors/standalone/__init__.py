"""Sources and sinks by themselves, without a runtime."""
