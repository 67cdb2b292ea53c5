// The policy slider: local layers moved from the client's own to the members' mean.

import { el, note, percent } from "./dom.js";

function whatBecomes(found, amount) {
  if (!found.layers.length) return ["All members have the same layers, so there is nothing to move."];
  if (!found.after) return ["The run predicts numbers; a policy is judged by decisions."];
  const { before, after, effect } = found;
  const asItIs = `${before.answer} (${percent(before.probability)})`;
  if (amount === 0) return [`As it is, it says ${asItIs}. Move the slider to see what becomes of it.`];
  const changed = before.answer === after.answer ? "still" : "now";
  const lines = [`It ${changed} says ${after.answer} (${percent(after.probability)}); as it is, ${asItIs}.`];
  if (effect) {
    const right = `right in ${percent(effect.after, 1)} instead of ${percent(effect.before, 1)}`;
    const decisions = `${percent(effect.changed, 1)} of decisions change`;
    lines.push(`On its own ${effect.samples} test samples it is ${right}; ${decisions}.`);
  }
  return lines;
}

export function policySlider(ask, state, keep) {
  const value = el("output", {});
  const said = el("div", { class: "policy-said", "aria-live": "polite" });
  const label = "local layers, from own to the members' mean";
  const slider = el("input", { type: "range", min: 0, max: 1, step: 0.05, "aria-label": label });
  slider.value = state.amount ?? 0;
  const update = async () => {
    const amount = Number(slider.value);
    value.textContent = percent(amount);
    keep({ amount: amount || "" });
    try {
      const lines = whatBecomes(await ask(amount), amount);
      said.replaceChildren(...lines.map((line) => el("p", {}, line)));
    } catch (error) {
      if (error.name !== "AbortError") said.replaceChildren(note(error.message));
    }
  };
  slider.addEventListener("input", update);
  update();
  return el(
    "div",
    { class: "policy" },
    el("h4", {}, "What if its local layers were those of everybody?"),
    el(
      "div",
      { class: "own-to-mean" },
      el("span", {}, "own"),
      slider,
      el("span", {}, "members' mean"),
      value,
    ),
    said,
  );
}
