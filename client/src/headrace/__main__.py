"""`python -m headrace`."""

from headrace.cli.app import main

main()
