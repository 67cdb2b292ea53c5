// Asks the server. Addresses are relative, so the token in the page's own address goes along.

export class Told extends Error {}

async function answer(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Told("The explorer does not answer any more; start it again with: duotone explore RUN");
  }
  const content = await response.json();
  if (!response.ok) throw new Told(content.error);
  return content;
}

export const runs = () => answer("api/runs");

// Questions about one run; those of a view that was left are given up.
export function asker(run, signal) {
  return {
    signal,
    ask(view, parameters = {}, own = signal) {
      const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
      return answer(`api/${run}/${view}?${new URLSearchParams(given)}`, { signal: own });
    },
    // Why samples are not at hand; null if they are. Known once, for it may take the data's loading.
    whyNoSamples: async () => (await answer(`api/${run}/samples-at-hand`, { signal })).why,
    upload: (file) => answer(`api/${run}/upload`, { method: "POST", body: file, signal }),
    follow: () => new EventSource(`api/${run}/follow`),
  };
}

// Lets only the newest of many questions be answered: what a slider asked before is given up.
export function newest(signal) {
  let current = null;
  return async (question) => {
    current?.abort();
    const own = (current = new AbortController());
    signal.addEventListener("abort", () => own.abort(), { once: true });
    return question(own.signal);
  };
}
