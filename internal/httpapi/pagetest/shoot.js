// Takes screenshots.
const { input, launch, open } = require("./browser.js");

(async () => {
  const browser = await launch();
  for (const shot of input) {
    const { width, height, scale = 1, dark = false } = shot;
    const page = await open(browser, shot.url + "/" + (shot.hash || ""), { viewport: { width, height }, deviceScaleFactor: scale, colorScheme: dark ? "dark" : "light" });
    for (const name of shot.press || []) await page.getByRole("button", { name }).first().click();
    if (shot.wait) await page.getByText(shot.wait).first().waitFor();
    // The clocks of a person's host and of this one are the same; the picture is of a moment.
    await page.screenshot({ path: shot.to, fullPage: !!shot.whole });
    console.log(JSON.stringify({ Scene: shot.to, Check: "is shown", Wrong: page.complaints.join("\n") }));
    await page.context().close();
  }
  await browser.close();
})();
