"""The user's config file: options of tfwatch that hold for every command."""
