"""What a person does with Headrace, from the beginning to the end."""
