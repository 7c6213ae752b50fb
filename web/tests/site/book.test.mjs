// The book, opened from its folder.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { barriers, close, launch, open } from "./browser.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());
afterEach(close);

test("the book opens without a request to anywhere, and a search finds a word", async () => {
  const { page, foreign, errors } = await open(browser, "index.html");
  assert.match(await page.title(), /Tactus/);
  await page.keyboard.press("s");
  await page.locator("#mdbook-searchbar").pressSequentially("replenishment");
  const found = page.locator("#mdbook-searchresults a").first();
  await found.click();
  await page.waitForURL(/highlight=replenishment/);
  assert.ok((await page.locator("mark").count()) > 0, "the word is marked");
  assert.deepEqual([foreign, errors], [[], []]);
});

test("a link with a hash leads to its heading", async () => {
  const { page, foreign, errors } = await open(browser, "docs/report.html");
  await page.locator("main a[href='#results-of-an-entity']").first().click();
  const heading = page.locator("#results-of-an-entity");
  assert.match(page.url(), /report\.html#results-of-an-entity$/);
  const { y } = await heading.boundingBox();
  assert.ok(y >= 0 && y < 800, `the heading is at ${y}`);
  assert.deepEqual([foreign, errors], [[], []]);
});

test("a paper shows its figures", async () => {
  const { page, errors } = await open(browser, "papers/poris/RESULT.html");
  const figure = page.locator("img[src$='figures/fig-6.svg']").first();
  assert.match(await figure.getAttribute("alt"), /^Fig 6/);
  assert.ok(await figure.evaluate((image) => image.decode().then(() => image.naturalWidth > 0)));
  assert.deepEqual(errors, []);
});

for (const colorScheme of ["light", "dark"]) {
  test(`pages have no serious barrier in the ${colorScheme} theme`, async () => {
    for (const path of ["index.html", "docs/policies/edf.html", "docs/scenarios.html", "papers/poris/RESULT.html"]) {
      const { page } = await open(browser, path, { colorScheme });
      assert.deepEqual(await barriers(page), [], path);
    }
  });
}
