// Package sinktest is the conformance suite of sinks: what every implementation of [sink.Sink] must
// do, the real ones on real servers included.
//
// A test of an implementation calls [Run] with a function that makes a [Fixture]. What a fixture
// leaves out, the suite does not ask, and the test's log names it.
//
// The suite judges by what an independent consumer sees ([Fixture].Read), not by what the sink says
// of itself.
package sinktest
