"use strict";

/* Tables are whole without this. It lets columns sort, and takes boxes that need no scrolling out
   of the tab order. */

const COLLATOR = new Intl.Collator("en-GB", { numeric: true });
const LEADING = /^[-+−±<]?\d[\d.,]*/;

function figure(text) {
  const found = text.match(LEADING);
  return found ? parseFloat(found[0].replace("−", "-").replace(/[±<+,]/g, "")) : NaN;
}

/* Rows by one column: figures before words, and what is no figure stays last either way. */
function sorted(rows, column, numeric, sign) {
  const keyed = rows.map((row) => {
    const text = row.cells[column].textContent.trim();
    return { row, text, value: figure(text) };
  });
  keyed.sort((a, b) => {
    if (!numeric) return sign * COLLATOR.compare(a.text, b.text);
    const lost = Number.isNaN(a.value) - Number.isNaN(b.value);
    return lost || sign * (a.value - b.value) || 0;
  });
  return keyed.map((one) => one.row);
}

/* The first press puts the largest figure or the first word on top, the second turns that round,
   the third gives back the order of the report. */
function press(table, rows, head, column) {
  const numeric = head.classList.contains("n");
  const order = numeric ? ["descending", "ascending", null] : ["ascending", "descending", null];
  const next = order[(order.indexOf(head.getAttribute("aria-sort")) + 1) % 3];
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  if (next) head.setAttribute("aria-sort", next);
  const sign = next === "ascending" ? 1 : -1;
  table.tBodies[0].append(...(next ? sorted(rows, column, numeric, sign) : rows));
  for (const row of rows) row.classList.toggle("new", !next && row.dataset.first === "true");
}

for (const table of document.querySelectorAll("table")) {
  const rows = [...table.tBodies[0].rows];
  for (const row of rows) row.dataset.first = row.classList.contains("new");
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => press(table, rows, head, column));
    head.append(button);
  });
}

const watch = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const fits =
      target.scrollWidth <= target.clientWidth && target.scrollHeight <= target.clientHeight;
    if (fits) target.removeAttribute("tabindex");
    else target.setAttribute("tabindex", "0");
  }
});
for (const box of document.querySelectorAll(".scroll")) watch.observe(box);
