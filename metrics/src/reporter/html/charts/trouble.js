// What went wrong, and the settings.
"use strict";

// Counts and lists of failures. `after(text)` may give an element that follows a text.
function troubleList(after = () => null) {
  const when = ({ results, env_steps }) =>
    env_steps == null
      ? ""
      : ` ${results > 1 ? `in ${counted(results, "result")}, ` : ""}at ${whole(env_steps)} env-steps`;
  const item = (text) => el("li", {}, text.text, el("span", {}, when(text)), after(text.text));
  return rebuilt("div", {}, ({ counts, lists }) => {
    if (!counts.length && !lists.length) return [nothing("The results report no failures.")];
    return [
      el("ul", { class: "counts" }, ...counts.map(([name, n]) => el("li", {}, el("b", {}, whole(n)), ` ${name}`))),
      ...lists.flatMap(({ heading, texts }) => [
        el("h3", {}, heading),
        el("ul", { class: "texts" }, ...texts.map(item)),
      ]),
    ];
  });
}

const settingsTable = () =>
  rebuilt("div", {}, ({ rows, left_out }) => [
    rows.length
      ? table(
          "settings",
          rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value))),
        )
      : nothing("The settings of this run are not known."),
    left_out ? nothing(`And ${counted(left_out, "further setting")}, left out for size.`) : null,
  ]);
