"""The GPU's figures, a module a source."""
