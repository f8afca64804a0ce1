"""Top-k accuracy: engines side by side on the same preprocessed images, with every disagreement listed."""
