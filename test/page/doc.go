// Package page tests the page in headless Chromium, as its users have it: with real workers, hostile names, a keyboard and
// a phone, with and without its script. `make screenshots` makes the pictures of docs/page.md.
//
// Without Chromium (scripts/install-chromium installs it) the tests are skipped.
package page
