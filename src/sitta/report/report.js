"use strict";
(() => {
  const { draw, make: plain } = sitta.dom;
  const { isBlind, named, structureOf } = sitta.words;
  const SVG = new Set(["svg", "image", "path", "g", "line", "circle", "text", "title"]);
  const NEAR = "1200px 0px"; // cards this close to the window are filled
  const CHART = { width: 300, height: 76, left: 24, right: 292, top: 8, bottom: 58 };

  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const { records, notes: declared, scores } = data;
  const view = { source: true, mask: true, heat: false };
  let [shown, current, review] = [[], null, null];

  // Words

  const fixed = (value, digits) => (value === null ? "–" : value.toFixed(digits));
  const unit = (value, digits, name) =>
    value === null ? "not measured" : `${value.toFixed(digits)} ${name}`;

  const meaning = {};
  for (const word of document.querySelectorAll("#words dt"))
    meaning[word.textContent] = word.nextElementSibling.textContent;

  // Elements: text is only ever set as text, so that a file name is never taken for HTML

  function make(tag, attributes = {}, ...children) {
    return (SVG.has(tag.split(".")[0]) ? draw : plain)(tag, attributes, ...children);
  }

  /** An outline with the strokes that it has on the page of the service. */
  function outlined(kind, path) {
    if (!path) return null;
    const lines = sitta.colours.strokes(kind, 1, 1).map(({ colour, width, dash }, i) => {
      const line = make(i ? "path" : "path.halo", { d: path });
      Object.assign(line.style, { stroke: colour, strokeWidth: width, strokeDasharray: dash.join(" ") });
      return line;
    });
    return make(`g.${kind}`, {}, ...lines);
  }

  function drawing(picture, label, ...layers) {
    const size = { width: picture.width, height: picture.height };
    const box = { viewBox: `0 0 ${size.width} ${size.height}`, role: "img", "aria-label": label };
    return make("svg.drawing", box, make("image", { href: picture.image, ...size }), ...layers);
  }

  function toggle(kind, words) {
    const state = { type: "button", "data-view": kind, "aria-pressed": String(view[kind]) };
    return make("button", { ...state, title: "on or off, in all images" },
      make(`i.key.${kind}`), words);
  }

  // Parts of a card

  function main(record) {
    const { name, picture: first } = record;
    const picture = { ...first, ...first.slices?.[record.at] };
    const size = { width: picture.width, height: picture.height };
    const heat = make("image.heat", { href: picture.uncertainty, ...size });
    const layers = [heat, outlined("mask", picture.mask), outlined("source", picture.source)];
    const none = (path, words) => (path === "" ? `${words}, empty` : words);
    return make("figure.main", {}, drawing(picture, `${name} with outlines`, ...layers),
      make("figcaption", {}, stepper(record),
        picture.source === null ? null : toggle("source", none(picture.source, "source")),
        toggle("mask", none(picture.mask, "adapted")), toggle("heat", "heat map")));
  }

  /** Steps through the slices that the report holds. */
  function stepper(record) {
    const count = record.picture.slices?.length ?? 0;
    if (!count) return null;
    const input = make("input", { type: "range", min: 0, max: count - 1, step: 1, "aria-label": "Slice",
      "aria-valuetext": `${record.at + 1} of ${count}` });
    input.value = record.at;
    input.addEventListener("input", () => slice(record, Number(input.value)));
    return make("label.step", {}, `slice ${record.at + 1} of ${count} `, input);
  }

  function slice(record, number) {
    const count = record?.picture.slices?.length ?? 0;
    const at = Math.max(0, Math.min(count - 1, number));
    if (!count || at === record.at) return;
    record.at = at;
    const old = record.card.querySelector(".main");
    const focused = old?.contains(document.activeElement);
    old?.replaceWith(main(record));
    if (focused) record.card.querySelector(".main input")?.focus();
  }

  /** The next slice that a note asks to look at, or the one before. */
  function lookAt(record, by) {
    const asks = (codes) => codes.some((code) => declared[code][0] !== "information");
    const looks = Object.entries(record?.noted ?? {}).filter(([, codes]) => asks(codes)).map(([n]) => Number(n));
    const ahead = looks.filter((n) => (n - record.at) * by > 0).sort((a, b) => (a - b) * by);
    if (ahead.length) slice(record, ahead[0]);
  }

  function heat({ picture }) {
    const label = "Heat map of the uncertainty";
    return make("figure.side", {},
      drawing({ ...picture, image: picture.uncertainty }, label),
      make("figcaption", {}, make("span", {}, "Uncertainty of each pixel"),
        make("span.scale", { role: "img", "aria-label": "Colour scale from 0 to 1 bit" }),
        make("span.ticks", { "aria-hidden": "true" }, make("span", {}, "0 certain"),
          make("span", {}, "0.5"), make("span", {}, "1 bit"))));
  }

  function list(record) {
    const time = make("div", { title: meaning.Time }, make("dt", {}, "Time"),
      make("dd", {}, unit(record.row.seconds, 2, "s")));
    const heads = typeof record.row.expected_dice === "number" ? ["expected_dice", "doubt"] : ["doubt"]; // in the heading
    const listed = scores.filter(({ name }) => !heads.includes(name));
    return make("dl.scores", {}, ...sitta.scores.scoreRows(listed, record, record.row), time);
  }

  const isNamed = (record, k) => Number.isNaN(Number(record.names[k] ?? 0)); // not by its lambda

  function member(record, k) {
    const { picture, row, lambdas } = record;
    const [sign, name] = isNamed(record, k) ? ["", record.names[k]] : ["λ ", lambdas[k]];
    const kind = k === record.source_member ? "source" : "mask";
    const said = [kind === "source" && "source", picture.members[k] === "" && "empty"].filter(Boolean);
    const [weight, entropy] = [row.weights[k], row.entropies[k]];
    const bar = make("i.fill");
    bar.style.width = `${100 * Math.min(1, weight || 0)}%`;
    return make("li", {},
      drawing(picture, `Mask at ${sign && "lambda "}${name}`, outlined(kind, picture.members[k])),
      make("b", {}, `${sign}${name}`, make("small", {}, ` ${said.join(", ")}`)),
      make("span.share", {}, bar),
      make("span", { title: meaning.Weight }, "weight ", make("b", {}, fixed(weight, 3))),
      make("span", { title: meaning.Entropy }, "entropy ", make("b", {}, unit(entropy, 3, "bit"))));
  }

  function members(record) {
    const order = record.lambdas.map((_, k) => k);
    const rank = (k) => (isNamed(record, k) ? -1 : record.lambdas[k]); // those with a name, last
    order.sort((a, b) => rank(b) - rank(a));
    return make("section.members", {},
      make("h4", {}, "Members ",
        make("small", {}, "from λ 1, the training statistics, to λ 0, this image alone")),
      curve(record),
      make("ul", {}, ...order.map((k) => member(record, k))));
  }

  /** Entropy and weight of the members, as on the page of the service. */
  function curve(record) {
    const { lambdas, names, row: { entropies, weights } } = record;
    if (lambdas.length < 2) return null;
    const svg = draw("svg.members-chart", { role: "img" });
    const show = (chosen) => {
      const told = { lambdas, member_names: names, entropies, weights, member: chosen, on: chosen >= 0 };
      sitta.chart.plot(svg, told, 560, show);
    };
    show(-1);
    return make("figure.curve", {}, svg, make("figcaption", {}, "Entropy (line) and weight (bars)"));
  }

  function slices(record) {
    const { agreements: values, along } = record;
    if (!values.length || (along === "Agreement" && record.lambdas.length < 2)) return null; // one member always agrees
    const x = (i) => CHART.left + ((CHART.right - CHART.left) * i) / (values.length - 1);
    const y = (value) => CHART.bottom - (CHART.bottom - CHART.top) * value;
    const known = values.map((value, i) => [i, value]).filter(([, value]) => value !== null);
    const line = known.map(([i, value], n) => `${n ? "L" : "M"}${x(i)} ${y(value)}`).join("");
    const marks = Object.entries(record.noted).map(([i, codes]) =>
      make("circle.noted", { cx: x(i), cy: y(values[i] ?? 0), r: 3.5 },
        make("title", {}, `Slice ${Number(i) + 1}: ${codes.map((code) => declared[code][1]).join(" ")}`)));
    const low = known.reduce((a, b) => (b[1] < a[1] ? b : a), known[0] || [0, 0]);
    const words = `${along} of ${values.length} slices, lowest ${fixed(low[1], 3)} ` +
      `at slice ${low[0] + 1}; ${marks.length} with notes; slice ${record.shown + 1} is shown`;
    const label = (x, y, text, anchor = "end") =>
      make("text", { x, y, "text-anchor": anchor }, text);
    const rule = (kind, x1, x2, y1, y2) => make(`line.${kind}`, { x1, x2, y1, y2 });
    const { width, height, left, right, top, bottom } = CHART;
    return make("figure.slices", {},
      make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words },
        ...[0, 0.5, 1].map((v) => rule("grid", left, right, y(v), y(v))),
        label(18, y(1) + 4, 1), label(18, y(0) + 3, 0), label(left, 72, 1, "start"),
        label(right, 72, values.length),
        rule("here", x(record.shown), x(record.shown), top, bottom),
        make("path.line", { d: line }), ...marks),
      make("figcaption", {}, `${along} by slice `,
        marks.length ? make("span", {}, make("i.dot"), `${marks.length} with notes `) : null,
        make("span", {}, make("i.rule"), "shown")));
  }

  function notes(record) {
    const here = record.row.notes;
    const where = (code) => {
      if (!record.agreements.length) return "";
      const count = Object.values(record.noted).filter((codes) => codes.includes(code)).length;
      const also = here.includes(code) ? ", this one too" : ", not in this one";
      return ` In ${count} of ${record.slices} slices${also}.`;
    };
    const order = [...here, ...record.codes.filter((code) => !here.includes(code))];
    return make("ul.notes", {}, ...order.map((code) => {
      const [severity, sentence, advice] = declared[code];
      const advised = advice.startsWith("Nothing") ? null : make("small", {}, named(advice, record));
      return make(`li.${severity}`, {}, named(sentence, record) + where(code), " ", advised,
        make("code", {}, code));
    }));
  }

  /** Whether a note says that the mask is of no use as it is. */
  const stops = ({ codes }) => codes.some((code) => declared[code][0] === "stop");

  /** Expected Dice; the doubt of a model that is not calibrated. */
  function dice({ row, doubt, lambdas }) {
    if (isBlind({ lambdas }, row)) return make("span.doubt", {}, "not judged: one member");
    if (typeof row.expected_dice !== "number")
      return make("span.doubt", { title: meaning.Doubt }, "doubt ", make("b", {}, fixed(doubt, 2)));
    const range = typeof row.expected_dice_low === "number"
      ? ` ${fixed(row.expected_dice_low, 2)} to ${fixed(row.expected_dice_high, 2)}` : "";
    return make("span.doubt", {}, "expected Dice ", make("b", {}, fixed(row.expected_dice, 2)), range);
  }

  // Contact sheet: a tile for each image, filled when it comes near

  function tile(record) {
    const button = make("button.tile", { type: "button", "data-index": record.index, title: record.name });
    button.addEventListener("click", () => go(record));
    near.observe(button);
    record.tile = make("li", {}, button);
    mark(record);
    return record.tile;
  }

  function drawTile(record, button) {
    if (button.firstChild?.tagName === "svg") return;
    button.prepend(drawing(record.picture, "", outlined("mask", record.picture.mask)));
    button.firstChild.setAttribute("aria-hidden", "true");
  }

  /** Colour of a tile and of a card: what a person said, else what the scores say. */
  function mark(record) {
    const said = review?.decisionOf(record) ?? "";
    const known = typeof record.expected === "number";
    const doubt = isBlind(record, record.row) ? "not judged" : `doubt ${fixed(record.doubt, 2)}`;
    const worth = known ? `Dice ${fixed(record.expected, 2)}` : doubt;
    const words = [said ? data.decisions[said] : stops(record) ? "Stop" : record.look ? "Look" : "Open", worth];
    const level = known ? (record.expected >= 0.9 ? "high" : record.expected >= 0.75 ? "middle" : "low") : "";
    const button = record.tile?.firstChild;
    if (button) {
      button.className = `tile ${said} ${level} ${record.look ? "look" : ""}`;
      const drawn = button.firstChild?.tagName === "svg" ? [button.firstChild] : [];
      button.replaceChildren(...drawn, ...words.map((text) => make("span", {}, text)));
      button.setAttribute("aria-label", `${record.name}: ${words.join(", ")}`);
    }
    record.card.dataset.decision = said;
    const badge = record.card.querySelector(".said");
    if (badge) badge.textContent = said ? data.decisions[said] : "";
  }

  function go(record) {
    fill(record);
    record.card.focus({ preventScroll: true });
    record.card.scrollIntoView({ block: "start" });
    choose(record);
  }

  /** After a decision: the next image below that is still open, else the first such one. */
  function open(record) {
    const at = shown.indexOf(record);
    const order = [...shown.slice(at + 1), ...shown.slice(0, at)];
    const left = order.find((one) => !review.decisionOf(one));
    if (left) go(left);
  }

  function head(record, id) {
    const volume = record.agreements.length > 0;
    const slice = volume ? ` · slice ${(record.row.slice ?? record.shown) + 1} of ${record.slices}` : "";
    const output = record.output.replace(/[\ud800-\udfff]/gu, "\ufffd"); // not Unicode
    const href = `./${output.split("/").map(encodeURIComponent).join("/")}`;
    return make("header", {},
      make("h3", { id }, record.name),
      dice(record),
      make("p.about", {}, `${record.classes.length ? `${structureOf(record)} · ` : ""}${record.kind} · ${record.shape.join(" × ")}${slice} · mask `,
        make("a", { href }, output)),
      record.look ? make(`p.badge${stops(record) ? ".stop" : ""}`, {}, stops(record) ? "Stop: do not use it as it is" : "Look at this one") : null,
      make("p.said", {}));
  }

  function fill(record) {
    if (!record || record.full) return;
    record.full = true;
    record.card.append(
      make("div.body", {}, record.codes.length ? notes(record) : null, main(record),
        make("div.second", {}, heat(record), slices(record)), list(record)),
      members(record));
    record.card.classList.add("full");
  }

  // Filter and sort

  const first = { // the smallest comes first, what is unknown last
    name: () => 0,
    doubt: (record) => -(record.doubt ?? -Infinity),
  };
  for (const { name, better } of scores)
    first[name] ??= ({ row }) => (better === "higher" ? row[name] : -(row[name] ?? -Infinity)) ?? Infinity;
  const byName = new Intl.Collator(undefined, { numeric: true });
  for (const record of records) record.folded = record.name.toLocaleLowerCase();

  /** Where all images have an expected Dice, the lowest comes first. */
  function byDice() {
    const name = "expected_dice";
    first[name] = ({ expected }) => expected;
    if (!$("sort").querySelector(`[value=${name}]`))
      $("sort").prepend(make("option", { value: name }, "expected Dice, lowest first"));
    $("sort").value = name;
  }

  function arrange() {
    const text = $("find").value.trim().toLocaleLowerCase();
    const code = $("note").value;
    const key = first[$("sort").value];
    shown = records.filter((record) => record.folded.includes(text) &&
      (!code || record.codes.includes(code)) && (record.look || !$("look").checked));
    shown.sort((a, b) => Math.sign(key(a) - key(b)) || byName.compare(a.name, b.name));
    shown.slice(0, 2).forEach(fill);
    $("feed").replaceChildren(...shown.map((record) => record.card));
    $("sheet").replaceChildren(...shown.map((record) => record.tile ?? tile(record)));
    shown.forEach((record, i) => {
      record.card.setAttribute("aria-posinset", i + 1);
      record.card.setAttribute("aria-setsize", shown.length);
    });
    $("count").textContent = `${shown.length} of ${records.length} shown`;
    $("none").hidden = shown.length > 0 || records.length === 0;
    choose(shown.includes(current) ? current : null);
  }

  // Step and toggle

  function choose(record) {
    current?.card.classList.remove("current");
    current = record;
    current?.card.classList.add("current");
    review?.render();
    $("at").textContent = `${record ? shown.indexOf(record) + 1 : "–"} / ${shown.length}`;
  }

  function nearest() {
    const box = current?.card.getBoundingClientRect();
    if (box && box.bottom > 0 && box.top < innerHeight) return [shown.indexOf(current), true];
    const top = shown.findIndex((record) => record.card.getBoundingClientRect().bottom > 120);
    return [top, false]; // scrolled away: go on from what is in the window
  }

  function step(by) {
    const [at, known] = nearest();
    const record = shown[Math.max(0, Math.min(shown.length - 1, known ? at + by : at))];
    if (!record) return;
    fill(shown[shown.indexOf(record) + 1]);
    go(record);
  }

  function large() {
    const on = document.documentElement.classList.toggle("large");
    $("large").setAttribute("aria-pressed", String(on));
    current?.card.scrollIntoView({ block: "start" });
  }

  function show(kind, on) {
    view[kind] = on;
    document.documentElement.classList.toggle(`show-${kind}`, on);
    document.querySelectorAll(`[data-view="${kind}"]`)
      .forEach((button) => button.setAttribute("aria-pressed", on));
  }

  function fade(by) {
    $("opacity").value = Number($("opacity").value) + by;
    document.documentElement.style.setProperty("--opacity", $("opacity").value / 100);
  }

  const keys = {
    j: () => step(1), ArrowRight: () => step(1), k: () => step(-1), ArrowLeft: () => step(-1),
    1: () => review.decide("accept"), 2: () => review.decide("needs-fix"),
    3: () => review.decide("reject"), r: () => $("remark").focus(), v: large,
    u: () => { const record = review.undo(); if (record) go(record); },
    ",": () => slice(current, current?.at - 1), ".": () => slice(current, current?.at + 1),
    n: () => lookAt(current, 1), p: () => lookAt(current, -1),
    s: () => show("source", !view.source), a: () => show("mask", !view.mask),
    h: () => show("heat", !view.heat), "+": () => fade(10), "-": () => fade(-10),
    l: () => $("look").click(), "/": () => $("find").focus(), "?": () => $("help").showModal(),
  };

  function pressed(event) {
    const typing = event.target.matches("select, [type=search], [type=text], [type=range]");
    if (event.key === "Escape" && typing) event.target.blur();
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const modified = event.ctrlKey || event.metaKey || event.altKey;
    const off = typing || modified || $("help").open || !$("keys").checked;
    if (key === " " && !off && !event.target.matches("button, summary, input, a")) {
      event.preventDefault();
      document.documentElement.classList.add("bare");
      return;
    }
    if (off || !Object.hasOwn(keys, key)) return;
    event.preventDefault();
    if (event.repeat && "123u".includes(key)) return; // a key held down decides once
    keys[key]();
  }

  // Start

  const near = new IntersectionObserver((entries) => entries.forEach((entry) => {
    const record = records[entry.target.dataset.index];
    if (!entry.isIntersecting) return;
    if (entry.target === record.card) fill(record);
    else drawTile(record, entry.target);
  }), { rootMargin: NEAR });
  records.forEach((record, index) => {
    const id = `name-${index}`;
    Object.assign(record, { index, at: record.shown });
    const options = { tabindex: 0, "aria-labelledby": id, "data-index": index };
    record.card = make("article.card", options, head(record, id));
    near.observe(record.card);
  });
  Object.entries(view).forEach(([kind, on]) => show(kind, on));
  fade(0);
  if (records.length && records.every(({ expected }) => typeof expected === "number")) byDice();
  arrange();
  review = sittaReview({ $, ...data, current: () => current ?? shown[Math.max(0, nearest()[0])], next: open, changed: mark });
  $("large").addEventListener("click", large);
  document.addEventListener("keyup", (event) => {
    if (event.key === " ") document.documentElement.classList.remove("bare");
  });
  ["find", "note", "sort", "look"].forEach((id) => $(id).addEventListener("input", arrange));
  $("opacity").addEventListener("input", () => { fade(0); show("heat", true); });
  $("back").addEventListener("click", () => step(-1));
  $("next").addEventListener("click", () => step(1));
  $("ask").addEventListener("click", () => $("help").showModal());
  $("close").addEventListener("click", () => $("help").close());
  $("clear").addEventListener("click", () => {
    $("find").value = $("note").value = "";
    $("look").checked = false;
    arrange();
  });
  document.addEventListener("click", (event) => {
    const kind = event.target.closest("[data-view]")?.dataset.view;
    if (kind) show(kind, !view[kind]);
  });
  $("feed").addEventListener("focusin", (event) =>
    choose(records[event.target.closest(".card").dataset.index]));
  document.addEventListener("keydown", pressed);
  addEventListener("beforeprint", () => shown.forEach(fill));
})();
