"""The documentation: the site that is built from it, and the code in it."""
