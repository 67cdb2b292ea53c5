"""FedDVA: a dual VAE whose two codes are what is drawn and how a client draws it."""
