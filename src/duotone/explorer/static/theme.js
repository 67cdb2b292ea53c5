// Light and dark: as the system wants it, until the reader chooses.

const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();

export const isDark = () => (root.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";

export function ink(name) {
  return getComputedStyle(root).getPropertyValue(`--${name}`).trim();
}

// Calls when colours change, until the signal ends.
export function onTheme(listener, signal) {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener), { once: true });
}

export function start(button) {
  const chosen = sessionStorage.getItem("theme");
  if (chosen) root.dataset.theme = chosen;
  const paint = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    for (const listener of listeners) listener();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    sessionStorage.setItem("theme", root.dataset.theme);
    paint();
  });
  prefersDark.addEventListener("change", paint);
  paint();
}
