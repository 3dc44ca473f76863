"""Power cuts and kills of the data plane, on a disk that loses what was not synced."""
