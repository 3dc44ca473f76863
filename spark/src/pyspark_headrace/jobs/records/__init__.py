"""Messages as rows that SQL can work on, and rows as messages: what jobs from topic to topic share.

The file that says what values are is the same for `archive`.
"""
