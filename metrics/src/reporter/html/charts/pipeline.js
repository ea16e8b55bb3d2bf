// The run as a picture: workers → queue → learner → weights, and back. Drawn in pixels at the width there is, so
// that its text has the size of all other text; upright where there is little room.
"use strict";

// Which part of the picture each limit is; of the whole run where it is none of the parts.
const LIMITS = {
  environments: ["workers", "limit"],
  inference: ["workers", "limit: inference"],
  network: ["sampled", "limit: network"],
  admission_order: ["queue", "limit: order of admission"],
  loading: ["trained", "limit: loading"],
  learner: ["learner", "limit"],
  processors: ["all", "limit: the machine's processors"],
  one_thread: ["all", "limit: one thread does everything"],
};

// The texts of the picture: [title, figure, detail] of each box, [figure, detail] of each edge.
function pipelineTexts(data) {
  const some = (value, text) => (value == null ? "" : text(value));
  const share = (value, word) => some(value, (it) => `${word} ${percent(it)}`);
  const rate = (value) => or_dash(value, compact),
    short = (value) => figure(Number(value.toPrecision(3)));
  const workers = some(data.workers, (n) => whole(n)) || "–";
  const remote =
    data.workers_of_hosts == null ? "" : `+ ${whole(data.workers_of_hosts)} on ${counted(data.hosts ?? 0, "host")}`;
  const capacity = data.queue_capacity == null ? "" : ` of ${whole(data.queue_capacity)}`;
  return {
    workers: ["Workers", workers, remote || share(data.blocked, "blocked")],
    queue: ["Queue", or_dash(data.queue_mean, short) + capacity, "fragments wait"],
    learner: ["Learner", `${rate(data.updates_per_s)} updates/s`, share(data.starved, "starved")],
    weights: ["Weights", or_dash(data.broadcasts, (n) => compact(n)), "publications"],
    sampled: [rate(data.sampled_per_s), "env-steps/s"],
    trained: [
      rate(data.trained_per_s),
      data.num_sgd_iter > 1 ? `steps/s, ${whole(data.num_sgd_iter)} passes` : "env-steps/s",
    ],
    published: ["", "publishes"],
    lag: [
      or_dash(data.lag_mean, (lag) => `lag ${short(lag)}`) +
        some(data.lag_max, (lag) => `, at most ${short(lag)}`) +
        some(data.effective_sample_size, (size) => `, ESS ${short(size)}`),
      "versions behind when trained on",
    ],
  };
}

function pipelinePicture() {
  const picture = svg("svg", { class: "pipeline", role: "img" }),
    sentence = el("p", { class: "sentence" });
  const element = el("div", {}, picture, sentence);
  const text = (x, y, kind, anchor = "middle") => svg("text", { x, y, class: kind, "text-anchor": anchor });
  let parts = {},
    width = 0,
    data;

  const box = (name, x, y, w, h) => {
    const texts = [
      text(x + w / 2, y + 22, "title"),
      text(x + w / 2, y + 44, "value"),
      text(x + w / 2, y + 62, "detail"),
    ];
    const frame = svg("rect", { x, y, width: w, height: h, rx: 8, class: "box" });
    parts[name] = { frame, texts, center: [x + w / 2, y] };
    return svg("g", {}, frame, ...texts);
  };
  // `tip` is where the arrow points to, and in which direction.
  const edge = (name, path, [tipX, tipY, turn], [x, y, anchor]) => {
    const line = svg("path", { d: path, class: "edge" });
    const tip = svg("path", {
      d: "M-8 -4.5 L0 0 L-8 4.5 z",
      class: "tip",
      transform: `translate(${tipX} ${tipY}) rotate(${turn})`,
    });
    parts[name] = {
      frame: line,
      texts: [text(x, y - 8, "value small", anchor), text(x, y + 17, "detail", anchor)],
      center: [x, y - 30],
    };
    return svg("g", {}, line, tip, ...parts[name].texts);
  };
  // The fill of the queue, along the foot of its box.
  const gauge = (x, y, w) => {
    const bar = svg("rect", { x, y, width: 0, height: 6, rx: 3, class: "fill" });
    const whole = svg("g", {}, svg("rect", { x, y, width: w, height: 6, rx: 3, class: "track" }), bar);
    parts.gauge = { bar, whole, width: w };
    return whole;
  };
  const boxes = (at, w, h) => {
    const drawn = ["workers", "queue", "learner", "weights"].map((name, i) => box(name, ...at(i), w, h));
    const [x, y] = at(1);
    picture.append(...drawn, gauge(x + 12, y + h - 13, w - 24));
  };
  const layLong = () => {
    const w = Math.min(150, width * 0.17),
      gap = (width - 2 - 4 * w) / 3,
      top = 16,
      h = 88,
      mid = top + 40,
      foot = top + h + 36;
    const at = (i) => 1 + i * (w + gap);
    boxes((i) => [at(i), top], w, h);
    ["sampled", "trained", "published"].forEach((name, i) => {
      const tip = at(i + 1) - 4;
      picture.append(
        edge(name, `M${at(i) + w + 4} ${mid} H${tip - 6}`, [tip, mid, 0], [at(i) + w + gap / 2, mid, "middle"]),
      );
    });
    const from = at(3) + w / 2,
      to = at(0) + w / 2;
    const down = `M${from} ${top + h + 4} V${foot - 8} Q${from} ${foot} ${from - 8} ${foot}`;
    const back = `${down} H${to + 8} Q${to} ${foot} ${to} ${foot - 8} V${top + h + 10}`;
    picture.append(edge("lag", back, [to, top + h + 4, -90], [width / 2, foot, "middle"]));
    return foot + 24;
  };
  const layUpright = () => {
    const w = Math.min(190, width * 0.55),
      h = 88,
      gap = 56,
      x = 34,
      top = 16,
      mid = x + w / 2;
    const at = (i) => top + i * (h + gap);
    boxes((i) => [x, at(i)], w, h);
    ["sampled", "trained", "published"].forEach((name, i) => {
      const tip = at(i + 1) - 4;
      picture.append(
        edge(name, `M${mid} ${at(i) + h + 4} V${tip - 6}`, [mid, tip, 90], [mid + 14, at(i) + h + gap / 2, "start"]),
      );
    });
    const from = at(3) + h / 2,
      to = at(0) + h / 2;
    picture.append(
      edge(
        "lag",
        `M${x - 4} ${from} H14 Q6 ${from} 6 ${from - 8} V${to + 8} Q6 ${to} 14 ${to} H${x - 10}`,
        [x - 4, to, 0],
        [x, at(3) + h + 28, "start"],
      ),
    );
    return at(3) + h + 52;
  };
  const lay = () => {
    parts = {};
    picture.replaceChildren();
    const height = width >= 600 ? layLong() : layUpright();
    const all = svg("rect", { x: 0.5, y: 0.5, width: width - 1, height: height - 1, rx: 10, class: "around" });
    picture.prepend(all);
    parts.all = { frame: all, texts: [], center: [width / 2, 0] };
    parts.pill = svg("g", { class: "pill" }, svg("rect", { height: 18, rx: 9 }), text(0, 0, ""));
    picture.append(parts.pill);
    fill(picture, { width, height, viewBox: `0 0 ${width} ${height}` }, []);
    show();
  };
  const show = () => {
    if (!parts.all || !data) return;
    const texts = pipelineTexts(data),
      [place, words] = LIMITS[data.limit] ?? [];
    for (const [name, lines] of Object.entries(texts)) lines.forEach((line, i) => setText(parts[name].texts[i], line));
    for (const name of [...Object.keys(texts), "all"]) parts[name].frame.classList.toggle("limit", name === place);
    const share =
      data.queue_capacity > 0 && data.queue_mean != null ? Math.min(data.queue_mean / data.queue_capacity, 1) : 0;
    parts.gauge.whole.style.display = data.queue_capacity > 0 ? "" : "none";
    parts.gauge.bar.style.width = `${share * parts.gauge.width}px`;
    parts.pill.style.display = place ? "" : "none";
    if (!place) return;
    const [frame, label] = parts.pill.children,
      half = 8 + 3.3 * words.length;
    const x = Math.min(Math.max(parts[place].center[0], half + 1), width - half - 1),
      y = parts[place].center[1];
    fill(frame, { x: x - half, y: y - 13, width: 2 * half }, []);
    fill(label, { x, y }, []);
    setText(label, words);
  };
  new ResizeObserver(() => {
    const now = Math.floor(element.clientWidth);
    if (!now || now === width) return;
    width = now;
    lay();
  }).observe(element);
  const update = (newer, words) => {
    data = newer;
    const texts = pipelineTexts(data),
      [place, limit] = LIMITS[data.limit] ?? ["", "no stage is the limit"];
    const told = Object.entries(texts).map(
      ([name, lines]) => `${name}: ${lines.filter((line) => line && line !== "Workers").join(" ")}`,
    );
    picture.setAttribute(
      "aria-label",
      clean(`Pipeline of the run. ${told.join("; ")}. ${place ? `${place}: ` : ""}${limit}.`),
    );
    setText(sentence, words ?? "");
    sentence.hidden = !words;
    show();
  };
  return { element, update };
}
