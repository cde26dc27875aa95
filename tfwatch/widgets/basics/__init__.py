"""The parts that every pane is made of."""
