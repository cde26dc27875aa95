"""The commands, a module each. A module is imported once its command is chosen."""
