"""Why do two clients give different answers to the same sample?

In these made data a gate says whether one rule holds for all, or that of the client's group. Twelve
clients learn a shared body and a head of their own. Then two of them are asked about one sample.
"""

import duotone

run = duotone.run(
    method={"name": "fedrep", "epochs": 2},
    data="planted-rule-table",
    partition={"scheme": "natural", "max_test": 40},
    rounds=6,
    latents=0,
    curve=[],
)
print(run.card(), "\n")
print(run.card("c1"), "\n")

data = duotone.load_dataset("planted-rule-table")
depends = data.factors["gate"][data.test_rows] == 1
x = data.x[data.test_rows][depends][:1]
first, other = run.client("c1"), run.client("c2")
print("c1 says", first.predict(x)[0], "and c2 says", other.predict(x)[0])
card = first.explain(x, against="c2")
print(card)
for own in card.classes:
    parts = own.mean + own.sample + own.habit + own.reading
    print(f"class {own.name}: {own.answer:.3f} is what the parts add up to, {parts:.3f}")
