// Before anything is drawn: the theme that was chosen, if one was.
"use strict";
try {
  const chosen = localStorage.getItem("lz-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch (error) { /* storage may be closed to us: the system's theme holds */ }
