"""Connectors on the command line: the commands `headrace connect`, and the option `headrace up --connectors`."""
