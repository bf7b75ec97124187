// Menus that drop, <details class="drop">: one is open at a time, and the key Escape or a press elsewhere closes it.
(() => {
  const close = (but) => {
    for (const menu of document.querySelectorAll("details.drop[open]")) if (!menu.contains(but)) menu.open = false;
  };
  document.addEventListener("pointerdown", (event) => close(event.target));
  document.addEventListener("focusin", (event) => close(event.target));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const menu = document.activeElement?.closest("details.drop[open]");
    close(null);
    menu?.querySelector("summary").focus();
  });
})();
