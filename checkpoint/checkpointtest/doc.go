// Package checkpointtest is the conformance suite of checkpoint stores: what every implementation
// of [checkpoint.Store] must do.
//
// A test of an implementation calls [Run] with a function that makes a [Fixture]. What a fixture
// leaves out, the suite does not ask, and the test's log names it.
package checkpointtest
