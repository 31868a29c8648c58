// Starts Chromium. Arguments of the scripts: folder of their modules, path of Chromium; what to play is on standard input.
const [modules, executablePath] = process.argv.slice(2);
const { chromium } = require(modules + "/playwright-core");

exports.modules = modules;
exports.input = JSON.parse(require("fs").readFileSync(0, "utf8"));
exports.launch = () => chromium.launch({ executablePath, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });

// open returns a page of a scene that has shown a status. It keeps what the browser complains of.
exports.open = async (browser, url, options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", locale: "en-GB", ...options });
  const page = await context.newPage();
  page.complaints = [];
  page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") page.complaints.push(m.text()); });
  page.on("pageerror", (e) => page.complaints.push(String(e)));
  page.on("request", (r) => { if (!r.url().startsWith(new URL(url).origin) && !r.url().startsWith("data:")) page.complaints.push("asks elsewhere: " + r.url()); });
  await page.goto(url);
  await page.locator("#streams > *").first().waitFor();
  return page;
};
