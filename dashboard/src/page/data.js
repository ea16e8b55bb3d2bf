// What the server answers, fetched anew when it says that it has changed.

const GONE = "the server does not answer";
const REFUSED = "the server refuses the access token";

// Throws the server's sentence as an error.
export async function get(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } }).catch(() => {
    throw new Error(`There is no answer: ${GONE}.`);
  });
  const body = await answer.json().catch(() => null);
  if (answer.status === 401) throw new Error(`There is no answer: ${REFUSED}.`);
  if (!answer.ok) throw new Error(body?.error ?? `The server answered ${answer.status}.`);
  if (body == null) throw new Error("The server's answer cannot be read.");
  return body;
}

const list = (ids) => ids.map(encodeURIComponent).join(",");
export const runs = () => get("/api/runs");
export const run = (id) => get(`/api/runs/${encodeURIComponent(id)}`);
export const curves = (ids) => get(`/api/curves?runs=${list(ids)}`);
export const differences = (ids) => get(`/api/differences?runs=${list(ids)}`);
export const sweep = (id) => get(`/api/sweeps/${encodeURIComponent(id)}`);
export const videoPath = (id, name) => `/api/runs/${encodeURIComponent(id)}/videos/${encodeURIComponent(name)}`;

const followers = new Set();
const EVENTS = "/api/events";
const RETRY_MS = 2000;
// How long the page says that it is connected again.
const AGAIN_MS = 5000;
// Loads what is shown at most this often.
const PAUSE_MS = 700;

// Listens to the server's versions while the page is visible, and tells `say(state, words)` how the connection is:
// `live`, `lost`, or `refused`.
export function connect(say) {
  let source = null,
    timer = null,
    newest,
    wasLost = false;
  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const open = () => {
    close();
    const mine = (source = new EventSource(EVENTS));
    source.addEventListener("open", () => {
      say("live", wasLost ? "Connected again" : "Live");
      if (!wasLost) return;
      wasLost = false;
      timer = setTimeout(() => say("live", "Live"), AGAIN_MS);
      // What happened while there was no connection is unknown.
      for (const follower of followers) follower.load();
    });
    source.addEventListener("versions", ({ data }) => {
      const versions = JSON.parse(data);
      const changed = { list: versions.list !== newest, runs: new Set(Object.keys(versions.runs ?? {})) };
      newest = versions.list;
      for (const follower of followers) if (follower.concerns(changed)) follower.load();
    });
    // A browser tries again after some errors alone, and tells none.
    source.addEventListener("error", async () => {
      source.close();
      // Or the page would soon say that it is live again.
      clearTimeout(timer);
      wasLost = true;
      const [state, words] = await whyLost();
      if (source !== mine) return;
      say(state, words);
      timer = setTimeout(open, RETRY_MS);
    });
  };
  // A browser has six connections to a server for all its tabs: those that cannot be seen need none.
  const look = () => (document.hidden ? close() : open());
  document.addEventListener("visibilitychange", look);
  look();
}

// Asks for the events again, of whose answer an EventSource tells nothing.
async function whyLost() {
  const asked = new AbortController();
  try {
    const answer = await fetch(EVENTS, { signal: asked.signal });
    if (answer.ok) return ["lost", "Connection lost, trying again"];
    if (answer.status === 401) return ["refused", `Connection lost: ${REFUSED}`];
    const body = await answer.json().catch(() => null);
    return ["lost", `Connection lost, trying again: ${body?.error ?? `the server answered ${answer.status}`}`];
  } catch {
    return ["lost", `Connection lost, trying again: ${GONE}`];
  } finally {
    asked.abort();
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
async function shown() {
  while (document.hidden)
    await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
}

// Calls `show(answer, error)` with what `ask` gives, now and after each change that `concerns({list, runs})`
// says yes to. One question is asked at a time; changes meanwhile are one more. Returns a function that ends it.
export function follow(concerns, ask, show) {
  let isLoading = false,
    isStale = false,
    ended = false;
  // An answer that cannot be shown must not keep the next one from being asked for.
  const tryToShow = (answer, error) => {
    try {
      show(answer, error);
    } catch (odd) {
      console.error(odd);
      if (answer) tryToShow(null, new Error(`An answer of the server cannot be shown: ${odd.message}`));
    }
  };
  const load = async () => {
    isStale = true;
    if (isLoading) return;
    isLoading = true;
    while (isStale && !ended) {
      await shown();
      isStale = false;
      const [answer, error] = await ask().then(
        (answer) => [answer, null],
        (error) => [null, error],
      );
      if (ended) return;
      tryToShow(answer, error);
      await pause(PAUSE_MS);
    }
    isLoading = false;
  };
  const follower = { concerns, load };
  followers.add(follower);
  load();
  return () => {
    ended = true;
    followers.delete(follower);
  };
}
