"""Sources that come with Headrace."""
