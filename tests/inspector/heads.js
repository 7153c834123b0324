// Of each cell the head of its column, and what the cell says of it where the heads are not shown.
const label = (cell) => (getComputedStyle(cell, "::before").content === "none" ? "nothing" : cell.dataset.label);
const found = [];
for (const table of document.querySelectorAll(".rows")) {
  const heads = [...table.querySelectorAll("thead th")].map((each) => each.textContent.replace(/[\u2191\u2193]/g, "").trim());
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.cells].forEach((cell, at) => found.push({ head: heads[at], said: label(cell) }));
  }
}
const columns = [...document.querySelectorAll(".column-heads > *")].map((each) => each.textContent);
for (const row of document.querySelectorAll(".block")) {
  [...row.children].forEach((cell, at) => found.push({ head: columns[at], said: label(cell) }));
}
return found;
