"""A recorded run as evidence, for people and for other programs."""
