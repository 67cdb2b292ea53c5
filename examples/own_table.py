"""Train on your own CSV file: three hospitals, ages with gaps, jobs as texts, one newcomer."""

import random
from pathlib import Path

import duotone

random.seed(0)
lines = ["hospital,age,job,sick"]
for hospital, typical in {"north": 40, "south": 55, "east": 60}.items():
    for _ in range(200):
        age = round(random.gauss(typical, 10), 1)
        job = random.choice(["nurse", "clerk", ""])
        sick = "yes" if age + 10 * (job == "nurse") > typical else "no"
        lines.append(f"{hospital},{age if random.random() < 0.9 else 'NA'},{job},{sick}")
Path("patients.csv").write_text("\n".join(lines), encoding="utf-8")

run = duotone.run(
    method="fedavg-ft",
    data="patients.csv",
    table={"label": "sick", "client": "hospital"},
    partition={"newcomers": ["east"]},
    rounds=5,
)
print("classes:", run.folder.class_names())
print("features:", run.folder.preparation().features)
print(run.metrics.filter(metric="accuracy", round=5).select("client", "value"))
