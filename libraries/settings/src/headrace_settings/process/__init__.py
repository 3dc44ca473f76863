"""Parts of all service processes: command line, log output, cluster secrets."""
