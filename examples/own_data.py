"""Train on your own arrays: two hospitals measure the same four things on different scales."""

import numpy as np

import duotone

rng = np.random.default_rng(0)
hospital = rng.choice(["north", "south"], size=1000)
x = rng.normal(size=(1000, 4)).astype(np.float32)
y = (x[:, 0] + x[:, 1] > 0).astype(int)
x[hospital == "south"] *= 3

data = {"x_train": x[:800], "y_train": y[:800], "client_train": hospital[:800]}
data |= {"x_test": x[800:], "y_test": y[800:], "client_test": hospital[800:]}
run = duotone.run(method="fedavg-ft", data=data, partition="natural", rounds=5)
print(run.metrics.filter(metric="accuracy", round=5).select("client", "value"))
