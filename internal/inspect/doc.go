// Package inspect has the findings of source, sink and checkpoint: what keeps a set-up from working
// or makes it unsafe or unwise, each with the remedy and the statement or command to type.
//
// `bridge check` prints findings, and a running bridge logs those about its source once.
// docs/findings.md explains every code; a test compares the two.
//
// A new kind of finding is a Code, a row in docs/findings.md and a test that provokes it.
package inspect
