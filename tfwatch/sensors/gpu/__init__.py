"""The GPU's figures: one module for each source."""
