"""`tfwatch fix`: the proved changes of a script, as one patch."""
