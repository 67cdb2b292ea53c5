"""FedCD and FedVC: what tells clients apart in a hidden layer of one shared model."""
