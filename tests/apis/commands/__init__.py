"""Every command as a row of a table, and its request in each API."""
