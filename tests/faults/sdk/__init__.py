"""The SDK under faults: cut and stalled connections, killed and paused servers, members that come and go."""
