"""PaDPaF: generative models that draw shared content in each client's style."""
