"""Bodies, queries and answers of the HTTP interface, as types: they are read, written and described by them."""
