// What is looked at, kept in the address: #/sample?run=0&client=b&sample=3

const VIEWS = ["federation", "client", "sample", "inks", "maps", "training"];

export function read() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const found = Object.fromEntries(new URLSearchParams(query ?? ""));
  return { ...found, view: VIEWS.includes(path) ? path : "federation", run: found.run ?? "0" };
}

export function address(state) {
  const { view, ...rest } = state;
  const kept = Object.entries(rest).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  return `#/${view}?${new URLSearchParams(kept)}`;
}

// Goes to another view or another client: the browser's back button returns. Where sliders stand
// belongs to what is left.
export function go(changes) {
  location.hash = address({ ...read(), shared: "", local: "", classes: "", amount: "", ...changes });
}

// Notes a detail, such as where a slider stands, without another step in the history.
export function keep(changes) {
  history.replaceState(null, "", address({ ...read(), ...changes }));
}
