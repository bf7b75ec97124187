// Datasette's table.js asks for this.
var DATASETTE_ALLOW_FACET = true;

// Its links that take a condition away are a cross without words.
document.addEventListener("DOMContentLoaded", () => {
  for (const link of document.querySelectorAll(".filter-row > a")) {
    const value = link.parentElement.querySelector("select");
    link.className = "button quiet small";
    link.textContent = "Remove";
    link.setAttribute("aria-label", `Remove the condition on ${value.value}`);
  }
});

// Its column menus open by mouse only, and beyond the edge of the window where the column is at it.
document.addEventListener("DOMContentLoaded", () => {
  const menu = document.querySelector("body > .dropdown-menu");
  if (!menu) return;
  let opener;

  const keepInside = () => {
    const surplus = menu.getBoundingClientRect().right + 8 - document.documentElement.clientWidth;
    if (surplus > 0) menu.style.left = `${Math.max(8, parseFloat(menu.style.left) - surplus)}px`;
  };
  const open = (icon, event) => {
    event.preventDefault();
    opener = icon;
    icon.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    const first = [...menu.querySelectorAll("a")].find((link) => link.offsetParent);
    if (first) first.focus();
  };

  for (const icon of document.querySelectorAll(".dropdown-menu-icon")) {
    icon.setAttribute("role", "button");
    icon.setAttribute("tabindex", "0");
    icon.setAttribute("aria-label", `Menu of ${icon.closest("th").dataset.column}`);
    icon.addEventListener("click", keepInside);
    icon.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") open(icon, event);
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || menu.style.display === "none") return;
    menu.style.display = "none";
    if (opener) opener.focus();
  });
});
