"""Tests of the patch of a script."""
