"""The page of `ep-nnapi report`: a model's graph with clusters and reasons, in one HTML file."""
