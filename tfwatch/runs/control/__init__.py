"""Requests to a training: their queue, and the socket that other processes send them to."""
