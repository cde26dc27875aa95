"""The machine during a training: sensors that fill columns of `core.rows.SAMPLE`."""
