// Package inspect has the words in which source, sink and checkpoint say what is unsafe about a set-up, unwise, or keeps it
// from working: findings, each with what to do about it and the statement or command to type.
//
// `bridge check` prints findings, and a running bridge logs those about its source once. docs/operations.md explains every code; a
// test holds the two together.
//
// A new kind of finding is a Code in codes.go, a row in docs/operations.md and a test that plants what it finds.
package inspect
