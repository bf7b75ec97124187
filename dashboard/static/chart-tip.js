// The tip of a chart: what its table says of the column that is pointed at, or has the focus.
(() => {
  const makeTable = ({ head, rows }) => {
    const table = document.createElement("table");
    table.createCaption().textContent = head;
    for (const row of rows) {
      const line = table.insertRow();
      row.forEach((text, place) => {
        const cell = document.createElement(place ? "td" : "th");
        cell.textContent = text;
        line.append(cell);
      });
    }
    return table;
  };
  // Pages that follow replace their charts, so what is pointed at is asked of the document.
  const find = (event) => event.target.closest?.(".chart a[data-tip]");
  const show = (event) => {
    const column = find(event);
    if (!column) return;
    const chart = column.closest(".chart"), tip = chart.querySelector(".tip");
    tip.replaceChildren(makeTable(JSON.parse(column.dataset.tip)));
    tip.hidden = false;
    const box = column.getBoundingClientRect(), ground = chart.getBoundingClientRect();
    const left = box.left - ground.left + box.width / 2 - tip.offsetWidth / 2;
    tip.style.left = `${Math.min(Math.max(left, 0), ground.width - tip.offsetWidth)}px`;
    tip.style.top = `${30 - tip.offsetHeight}px`;
  };
  const hide = (event) => {
    const tip = find(event)?.closest(".chart").querySelector(".tip");
    if (tip) tip.hidden = true;
  };
  document.addEventListener("pointerover", show);
  document.addEventListener("focusin", show);
  document.addEventListener("pointerout", hide);
  document.addEventListener("focusout", hide);
})();
