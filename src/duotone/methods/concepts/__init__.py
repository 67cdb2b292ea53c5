"""FedCD and FedVC: how clients differ in a hidden layer of one shared model."""
