"""The check-up: is the installation right? Facts are gathered in one place and judged by pure
functions."""
