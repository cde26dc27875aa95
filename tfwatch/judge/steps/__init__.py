"""Steps and their time: steady steps, stalls, fits, and the time breakdown."""
