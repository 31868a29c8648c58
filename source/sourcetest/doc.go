// Package sourcetest holds the conformance suite of sources: what every implementation of
// source.Source promises, checked through the interface. An implementation calls [Run] from its
// tests with a [Fixture] that knows how to make tables.
package sourcetest
