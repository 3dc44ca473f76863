"""The description of the connectors' HTTP interface."""
