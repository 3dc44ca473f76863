"""One connection of a client: admission, protocol checks, identity, socket."""
