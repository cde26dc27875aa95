"""A long run as a whole: the line below the chart, learning curves, epochs and sensors over time."""
