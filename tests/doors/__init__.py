"""The doors besides the binary protocol: they lead to the same place, with the same rights and refusals."""
