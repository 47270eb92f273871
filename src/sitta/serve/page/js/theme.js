/** Light or dark: as the system says, until someone chooses. */

const KEY = "sitta-theme";

/** What was chosen here before; null if nothing, or if nothing may be kept. */
function kept() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage is off in this browser
  }
}

/** Whether the page is dark now. */
export function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Use what was chosen. */
export function start() {
  const theme = kept();
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
}

/** The other one; kept for the next time. @returns {string} */
export function toggle() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    return theme; // for this time only
  }
  return theme;
}
