"""PaDPaF: generative models that draw everybody's content in each client's style."""
