"""What the machine does while it trains: sensors that fill columns of `core.rows.SAMPLE`."""
