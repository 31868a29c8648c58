// Package pagetest tests the page for people in a real browser, and takes its screenshots.
//
// Each scene is a daemon that says what a test wants it to say; one is a real bridge. The scripts
// play them by roles and texts, as a person with a keyboard or a screen reader does, and never by
// pixels.
package pagetest
