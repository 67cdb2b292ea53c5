"""Use what was trained: a hospital predicts, and a new hospital joins the finished run.

Three hospitals learn together to read digits, and each fine-tunes the shared model. Then one of
them reads new pictures, and another, whose pictures are negatives, joins with labelled samples.
"""

import duotone

data = duotone.load_dataset("mini-digits")
partition = {"scheme": "iid", "clients": 4, "newcomers": 1}
settings = {"name": "fedavg-ft", "finetune_epochs": 10}
run = duotone.run(
    method=settings, data="mini-digits", partition=partition, rounds=5, latents=0, curve=[]
)

x, y = data.x[data.test_rows], data.y[data.test_rows]
hospital = run.client("0")
print("hospital 0 reads", hospital.predict(x[:8]), "and the truth is", y[:8])
print(f"hospital 0: {(hospital.predict(x) == y).mean():.3f} of {len(y)} pictures are right")

negatives = 255 - data.x
shown = data.train_rows[:200]
joined = run.join(negatives[shown], data.y[shown], name="new hospital", keep=True)
for client in (hospital, run.client("new hospital")):
    right = (client.predict(255 - x) == y).mean()
    print(f"{client.name} on negatives: {right:.3f}")

folder = joined.export("new-hospital")
print("the model of the new hospital, for any machine:", folder)
