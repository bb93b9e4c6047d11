// What the Admin API says, without what only its own clients can use: regular expressions, and requests that would list objects.
import { t } from "./i18n";

export function inWords(text: string): string {
  return text
    .replace(/^transaction refused, nothing was written: changes\[\d+\] \S+: /, "")
    .replace(/: GET \/apisix\/admin\/\w+ lists those that exist/, "")
    .replace(/failed to match pattern "?.*"? with "(.*?)"(?=;|$)/s, (_, value: string) => t("check.pattern", { value }));
}
