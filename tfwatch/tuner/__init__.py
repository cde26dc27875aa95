"""The threads that run experiments and the autopilot beside the training."""
