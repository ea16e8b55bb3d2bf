// What the server answers, fetched anew when it says that it has changed.

// Throws the server's sentence as an error.
export async function get(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  const body = await answer.json().catch(() => null);
  if (answer.status === 401) throw new Error("The server asks for its token: open the address that it printed.");
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
const RETRY_MS = 2000;
// Loads what is shown at most this often.
const PAUSE_MS = 700;

// Listens to the server's versions and tells `say` in words how the connection is.
export function connect(say) {
  const source = new EventSource("/api/events");
  let list,
    wasLost = false;
  source.addEventListener("open", () => {
    say("live", "Live");
    // What happened while there was no connection is unknown.
    if (wasLost) for (const follower of followers) follower.load();
    wasLost = false;
  });
  source.addEventListener("versions", ({ data }) => {
    const versions = JSON.parse(data);
    const changed = { list: versions.list !== list, runs: new Set(Object.keys(versions.runs ?? {})) };
    list = versions.list;
    for (const follower of followers) if (follower.concerns(changed)) follower.load();
  });
  source.addEventListener("error", () => {
    wasLost = true;
    say("lost", "Connection lost, trying again");
    // A browser gives up after some answers, such as that of a proxy.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => connect(say), RETRY_MS);
  });
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const shown = () =>
  document.hidden ? new Promise((done) => document.addEventListener("visibilitychange", done, { once: true })) : null;

// Calls `show(answer, error)` with what `ask` gives, now and after each change that `concerns({list, runs})`
// says yes to. One question is asked at a time; changes meanwhile are one more. Returns a function that ends it.
export function follow(concerns, ask, show) {
  let isLoading = false,
    isStale = false,
    ended = false;
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
      show(answer, error);
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
