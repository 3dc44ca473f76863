"""Options and arguments that many commands have, and completion of their values."""
