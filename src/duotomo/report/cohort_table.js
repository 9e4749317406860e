"use strict";
// Sorts and filters the table of cases. Without it, the table is whole and in the manifest's order.
(() => {
  const table = document.querySelector("#cases");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const words = document.querySelector("#words");
  const status = document.querySelector("#status");
  const shown = document.querySelector("#shown");
  const sorter = document.querySelector("#sort");
  const heads = [...table.tHead.rows[0].cells];

  const value = (row, column) => row.cells[column].dataset.value ?? "";
  const compare = (a, b, column) => {
    const [one, two] = [value(a, column), value(b, column)];
    // What is not known comes last, whichever way.
    if (one === "" || two === "") return (one === "") - (two === "");
    const difference = heads[column].dataset.kind === "number" ? one - two : one.localeCompare(two, "en");
    return table.dataset.down === "yes" ? -difference : difference;
  };
  const sort = (column, down) => {
    table.dataset.down = down ? "yes" : "no";
    heads.forEach((head, number) => {
      if (number === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    sorter.value = `${column} ${down ? "down" : "up"}`;
    body.append(...[...rows].sort((a, b) => compare(a, b, column)));
  };
  heads.forEach((head, column) => {
    head.querySelector("button")?.addEventListener("click", () => {
      sort(column, head.getAttribute("aria-sort") === "ascending");
    });
  });
  sorter.addEventListener("change", () => {
    const [column, way] = sorter.value.split(" ");
    sort(Number(column), way === "down");
  });

  const filter = () => {
    const wanted = words.value.trim().toLowerCase();
    let n = 0;
    for (const row of rows) {
      const fits = row.textContent.toLowerCase().includes(wanted);
      row.hidden = !fits || (status.value !== "" && row.dataset.status !== status.value);
      n += !row.hidden;
    }
    shown.textContent = `${n} of ${rows.length} cases`;
  };
  words.addEventListener("input", filter);
  status.addEventListener("change", filter);
  document.querySelector("#tools").hidden = false;
  filter();
})();
