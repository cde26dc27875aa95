"""Values read from a run's files: their types and bounds, and the formats of earlier versions."""
