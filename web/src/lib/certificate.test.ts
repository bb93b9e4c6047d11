import { expect, test } from "vitest";
import { readCertificate } from "./certificate";

const PEM = `-----BEGIN CERTIFICATE-----
MIIBtjCCAVugAwIBAgIUekU6rNdxYhh6ga4dw9LUzBbfGRIwCgYIKoZIzj0EAwIw
GjEYMBYGA1UEAwwPaWdub3JlZC5leGFtcGxlMB4XDTI2MTEyNzA1MDc1MloXDTI2
MTEzMDA1MDc1MlowGjEYMBYGA1UEAwwPaWdub3JlZC5leGFtcGxlMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAElY2UcoUyMuISR7XKTT3sfq/+K3AKIKBVnAmKJrTJ
UeMDoQMpzZ8FQ8B9o4zu9oud+aossmIxHMUw3UVj+TS4AqN/MH0wHQYDVR0OBBYE
FFz5gbGR4OFmSFejQoqtmExWdGZ2MB8GA1UdIwQYMBaAFFz5gbGR4OFmSFejQoqt
mExWdGZ2MA8GA1UdEwEB/wQFMAMBAf8wKgYDVR0RBCMwIYIQc2hvcC5leGFtcGxl
LmNvbYINKi5leGFtcGxlLm9yZzAKBggqhkjOPQQDAgNJADBGAiEAh2ab8Pt6XBd5
NPN+qGTCX+pmt4Fl5f83xEsGtWIhfGUCIQDJ6tLjXO/CS+jJ6gjNdoNQkQZjd419
Dgn3YYxfQsVyZw==
-----END CERTIFICATE-----
`;

test("a certificate's names and time", () => {
  expect(readCertificate(PEM)).toEqual({ start: Date.parse("2026-11-27T05:07:52Z") / 1000, end: Date.parse("2026-11-30T05:07:52Z") / 1000, names: ["shop.example.com", "*.example.org"] });
});

test.each([undefined, "", "no PEM", PEM.replace(/[A-Z]{2}/g, "AA"), `${PEM.slice(0, 200)}\n-----END CERTIFICATE-----`])("what is none is none: %j", (text) => {
  expect(readCertificate(text)).toBeNull();
});
