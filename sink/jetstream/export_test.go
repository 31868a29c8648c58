package jetstream

import (
	"time"

	"example.org/bridge/tests/faulty/failpoint"
)

// OnStep has hook called at each step of an atomic batch.
func OnStep(s *Sink, hook func(failpoint.Point)) { s.batcher.steps = hook }

// TooOld tells whether a server of a version has no atomic batches.
var TooOld = tooOld

// RenewEvery sets how often a sink looks whether its claim ages.
func RenewEvery(o *Options, d time.Duration) { o.renewEvery = d }
