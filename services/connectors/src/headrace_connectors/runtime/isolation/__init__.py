"""Connectors in processes of their own: what such a process does and kills reaches no other connector."""
