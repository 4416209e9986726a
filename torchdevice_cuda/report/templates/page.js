// The parts of a page that a notebook's cell lacks: its theme, its search, and the order of its tables.
const root = document.body;
const repaint = [showTimeline(root), showMemory(root)];

const themes = ["light dark", "light", "dark"], names = ["theme: system", "theme: light", "theme: dark"];
const button = document.getElementById("theme");
let theme = 0;
function setTheme(number) {
  theme = number;
  root.style.colorScheme = document.documentElement.style.colorScheme = themes[theme];
  button.textContent = names[theme];
  for (const paint of repaint) paint();
}
button.addEventListener("click", () => setTheme((theme + 1) % themes.length));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(theme));
setTheme(0);

const rows = [...document.querySelectorAll("tbody tr")].map(row => [row, row.textContent.toLowerCase()]);
document.getElementById("find").addEventListener("input", event => {
  const wanted = event.target.value.trim().toLowerCase();
  for (const [row, text] of rows) row.classList.toggle("hidden", wanted !== "" && !text.includes(wanted));
});

const units = {us: 1e-6, ms: 1e-3, s: 1, B: 1, KiB: 1024, MiB: 1048576, GiB: 1073741824};
function value(cell) {
  const found = /^([\d.,]+)\s*(%|us|ms|s|B|[KMG]iB)?$/.exec(cell.textContent.trim());
  return found ? parseFloat(found[1].replaceAll(",", "")) * (units[found[2]] ?? 1) : null;
}
for (const head of document.querySelectorAll(".tdc-grid th")) head.addEventListener("click", () => {
  const column = head.cellIndex, body = head.closest("table").tBodies[0];
  const down = head.dataset.down = head.dataset.down === "1" ? "0" : "1";
  const sorted = [...body.rows].sort((a, b) => {
    const [x, y] = [a, b].map(row => value(row.cells[column]));
    const order = x !== null && y !== null ? x - y : a.cells[column].textContent.localeCompare(b.cells[column].textContent);
    return down === "1" ? -order : order;
  });
  body.append(...sorted);
});
