"""Where examples come from: arrays, numbered examples, image folders."""
