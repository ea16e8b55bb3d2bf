// Which view the address asks for, and whether the page is connected.
/* global el, fill, setText, attempt, endPlotsIn */
import { connect } from "./data.js";
import { comparison } from "./compare.js";
import { oneRun } from "./run.js";
import { runList } from "./runs.js";
import { oneSweep } from "./sweep.js";

const main = document.getElementById("main");
const nav = document.querySelector(".top nav");

// A view is made with {main, title} and its argument, and gives back a function that ends it.
const VIEWS = [
  [/^#\/run\/(.+)$/, (at, [id]) => oneRun(at, id)],
  [/^#\/compare\/(.+)$/, (at, [ids]) => comparison(at, ids.split(",").filter(Boolean))],
  [/^#\/sweep\/(.+)$/, (at, [id]) => oneSweep(at, id)],
  [/^/, (at) => runList(at)],
];

let end = () => {};
let isFirst = true;
function show() {
  end();
  end = () => {};
  endPlotsIn(main);
  main.replaceChildren();
  const h1 = el("h1", { tabindex: -1 });
  const title = (text) => {
    setText(h1, text);
    document.title = `${h1.textContent} · pronk`;
  };
  const [pattern, view] = VIEWS.find(([pattern]) => pattern.test(location.hash));
  const parts = location.hash.match(pattern).slice(1).map(decoded);
  nav.replaceChildren(parts.length ? el("a", { href: "#/" }, "← All runs") : "");
  attempt(main, () => {
    end = view({ main, h1, title }, parts);
  });
  // A reader with a keyboard or a screen reader goes on at the top of the new view.
  if (!isFirst) h1.focus({ preventScroll: true });
  if (!isFirst) scrollTo(0, 0);
  isFirst = false;
}
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
const connection = document.querySelector(".connection"),
  words = el("span"),
  login = el("a", { href: "/" }, "Log in");
fill(connection, { class: "connection" }, [words, login]);
login.hidden = true;
connect((state, text) => {
  connection.className = `connection ${state}`;
  login.hidden = state !== "refused";
  setText(words, text);
});
show();
