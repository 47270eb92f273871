"use strict";
/* Decisions in the report: kept in this browser, or by sitta review; exported as decisions.csv. */
function sittaReview({ $, records, columns, decisions, run, began, current, next, changed }) {
  const served = location.protocol.startsWith("http");
  const FORMULA = /^['\s]*[=+\-@\uff1d\uff0b\uff0d\uff20]/u; // a spreadsheet would compute it
  const AFTER_SEMICOLON = /;(?=['"\s]*[=+\-@\uff1d\uff0b\uff0d\uff20])/gu; // a cell begins there in some countries
  const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}]/gu;
  const key = `sitta-review ${run}`;
  const said = new Map(); // by name: decision, remark, reviewer, time
  const undone = [];

  const store = (name, value) => {
    try {
      if (value !== undefined) localStorage.setItem(name, value);
      return localStorage.getItem(name);
    } catch {
      return null; // storage is off: decisions last as long as the page
    }
  };

  // One cell of a CSV file, by the same rules as in Python

  function cell(value) {
    if (typeof value !== "string") return value === null ? "" : String(value);
    const hex = (code, digits) => code.toString(16).padStart(digits, "0");
    const escape = (c) => {
      const code = c.codePointAt(0);
      const short = { "\t": "\\t", "\n": "\\n", "\r": "\\r" }[c];
      return short ?? (code < 256 ? `\\x${hex(code, 2)}` : code < 65536 ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`);
    };
    const text = value.replace(CONTROL, escape).replace(AFTER_SEMICOLON, ";'");
    const safe = FORMULA.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  const row = ({ name, hash }) => ({
    file: name, slice: null, mask: "adapted", threshold: null, mask_sha256: hash ?? "",
    decision: "", remark: "", reviewer: "", time: "", ...said.get(name),
  });

  function csv() {
    const rows = records.filter(({ name }) => said.has(name)).map(row);
    const lines = [columns, ...rows.map((one) => columns.map((name) => cell(one[name])))];
    return lines.map((line) => `${line.join(",")}\r\n`).join("");
  }

  function keep(record) {
    const { name } = record;
    if (!served) {
      store(key, JSON.stringify([...said]));
      return;
    }
    const { decision, remark, reviewer } = row(record);
    const body = JSON.stringify({ file: name, decision, remark, reviewer });
    fetch("./decisions", { method: "PUT", body, headers: { "Content-Type": "application/json" } })
      .then(async (response) => {
        if (!response.ok) throw new Error((await response.json()).error.message);
        tell("");
      })
      .catch((error) => tell(`Not saved: ${error.message}`));
  }

  const tell = (text) => { $("saved").textContent = text; };

  function set(record, patch) {
    const before = said.get(record.name);
    const reviewer = $("reviewer").value.trim();
    const time = `${new Date().toISOString().slice(0, 19)}+00:00`;
    said.set(record.name, { decision: "", remark: "", ...before, ...patch, reviewer, time });
    if (!said.get(record.name).decision && !said.get(record.name).remark) said.delete(record.name);
    keep(record);
    render();
    changed(record);
  }

  function decide(decision) {
    const record = current();
    if (!record) return;
    undone.push([record, said.get(record.name)?.decision ?? ""]);
    set(record, { decision });
    next(record);
  }

  function undo() {
    const [record, decision] = undone.pop() ?? [];
    if (record) set(record, { decision });
    return record;
  }

  function render() {
    const made = records.filter(({ name }) => said.get(name)?.decision).length;
    $("reviewed").textContent = `${made} of ${records.length} reviewed`;
    const one = current() && said.get(current().name);
    for (const name of Object.keys(decisions)) $(name).setAttribute("aria-pressed", String(one?.decision === name));
    if (document.activeElement !== $("remark")) $("remark").value = one?.remark ?? "";
  }

  async function load() {
    await null; // until the page has what this returns
    if (!served) {
      for (const { file, slice, ...one } of began) said.set(file, one);
      for (const [name, one] of JSON.parse(store(key) ?? "[]")) said.set(name, one);
    } else {
      const { decisions: rows } = await (await fetch("./decisions")).json();
      for (const { file, decision, remark, reviewer, time, slice } of rows)
        if (slice === null) said.set(file, { decision, remark, reviewer, time });
    }
    render();
    records.forEach(changed);
  }

  for (const name of Object.keys(decisions)) $(name).addEventListener("click", () => decide(name));
  $("reviewer").value = store("sitta-reviewer") ?? "";
  $("reviewer").addEventListener("change", () => store("sitta-reviewer", $("reviewer").value.trim()));
  $("remark").addEventListener("change", () => current() && set(current(), { remark: $("remark").value.trim() }));
  $("remark").addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "Escape") current()?.card.focus();
  });
  $("export").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    link.download = "decisions.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  });
  load().catch((error) => tell(`Decisions could not be read: ${error.message}`));
  return { decide, undo, render, decisionOf: ({ name }) => said.get(name)?.decision ?? "" };
}
