"""Forecasts of the step after a switch, and the measurements that they rest on."""
