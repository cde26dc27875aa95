"""A run for other tools: Perfetto, CSV, Parquet, TensorBoard. Each export reads the run in
chunks."""
