"""`%load_ext tfwatch`: the trainings of a notebook are recorded, and each cell that trained shows its summary."""
