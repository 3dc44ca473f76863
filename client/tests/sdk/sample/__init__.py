"""A program as users of the SDK write it: checked by the strictest type checkers, and run."""
