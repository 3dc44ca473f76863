"""Changes of tables, through topics to copies and files, while everything is killed."""
