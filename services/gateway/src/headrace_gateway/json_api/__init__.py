"""Parts of the JSON APIs, HTTP and push: refusals and numbers."""
