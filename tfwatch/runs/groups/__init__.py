"""Groups: the runs of processes that train together, each rank's run in a folder below the group's."""
