// The book beyond mdBook's scripts: the keyboard reaches the button of the table of contents, and everything that
// scrolls.

(() => {
  const button = document.getElementById("mdbook-sidebar-toggle");
  button?.setAttribute("role", "button");
  button?.setAttribute("tabindex", "0");
  button?.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      button.click();
    }
  });
  for (const area of document.querySelectorAll("pre > code, .table-wrapper")) {
    if (area.scrollWidth > area.clientWidth) {
      area.tabIndex = 0;
    }
  }
})();
