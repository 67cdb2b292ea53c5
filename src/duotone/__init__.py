"""Personalised federated learning, printed in two inks."""
