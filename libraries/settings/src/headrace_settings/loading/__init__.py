"""Reading a configuration: files, environment, options."""
