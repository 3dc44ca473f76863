"""Commands for those who run servers."""
