"""Steps and their time: breakdown, verdict, spikes, stalls, patterns and the time breakdown."""
