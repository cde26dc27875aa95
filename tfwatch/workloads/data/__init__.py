"""The data of the workloads: arrays, numbered examples, image folders."""
