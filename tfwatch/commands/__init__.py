"""What `tfwatch` does, one module a command. Nothing here is imported before its command is chosen."""
