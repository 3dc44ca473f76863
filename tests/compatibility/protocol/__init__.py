"""The binary protocol, written by hand a second time: frames, answers, connections."""
