import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, signIn, test } from "./fixtures";

/** A certificate for one name that ends in some days. */
function certificate(name: string, days: number): { cert: string; key: string } {
  const folder = mkdtempSync(join(tmpdir(), "tidegate-cert-"));
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", `/CN=${name}`, "-addext", `subjectAltName=DNS:${name}`, "-days", String(days), "-keyout", key, "-out", cert], { stdio: "ignore" });
  const made = { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") };
  rmSync(folder, { recursive: true });
  return made;
}

test("the form, the list and the panel of a certificate say when it ends", async ({ page, gateway }) => {
  await gateway.put("/ssls/shop", { snis: ["shop.example.com"], ...certificate("shop.example.com", 5) });
  await signIn(page, gateway, "/ssls");
  const day = new Date(Date.now() + 5 * 86_400_000).toLocaleDateString("en", { year: "numeric", month: "short", day: "numeric" });
  await expect(page.getByRole("row", { name: /shop.example.com/ }).locator(".tag.warn")).toHaveText(day);
  await page.getByRole("row", { name: /shop.example.com/ }).click();
  await expect(page.getByRole("complementary")).toContainText(day);
  await page.goto(`${gateway.console}/ssls/shop`);
  await expect(page.getByTestId("validity")).toContainText(day);
  await expect(page.locator('[data-path="/key"] textarea')).toHaveAttribute("placeholder", /stored key stays/);
});

test("a certificate for another name than its SNI is saved with a warning that is seen", async ({ page, gateway }) => {
  const { cert, key } = certificate("other.example.org", 90);
  await signIn(page, gateway, "/ssls/+new");
  await page.getByRole("textbox", { name: "Server names" }).fill("shop.example.com");
  await page.keyboard.press("Enter");
  await page.locator('[data-path="/cert"] textarea').fill(cert);
  await page.locator('[data-path="/key"] textarea').fill(key);
  await expect(page.getByTestId("validity")).toBeVisible();
  await expect(page.locator(".form")).toContainText("other.example.org");
  await expect(page.getByRole("status").filter({ hasText: /Valid, (one|\d+) warning/ })).toBeVisible();
  await expect(page.locator(".problems .warn")).toContainText("shop.example.com");
});

test("a certificate that is none is named, besides its key", async ({ page, gateway }) => {
  await signIn(page, gateway, "/ssls/+new");
  await page.locator("#new-id").fill("garbage");
  await page.getByRole("textbox", { name: "Server names" }).fill("a.example.com");
  await page.keyboard.press("Enter");
  const garbage = "garbage ".repeat(30);
  await page.getByRole("textbox", { name: "Certificate", exact: true }).fill(garbage);
  await page.getByRole("textbox", { name: "Private key" }).fill(garbage);
  await expect(page.getByText(/^This is not a certificate in PEM/)).toBeVisible();
});
