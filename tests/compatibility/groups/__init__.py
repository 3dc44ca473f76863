"""Consumer groups, with members that are processes or scripts."""
