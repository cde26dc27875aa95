"""What the rows mean: pure functions over arrays and events."""
