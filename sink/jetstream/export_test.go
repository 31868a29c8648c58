package jetstream

import (
	"time"

	"example.org/bridge/client/jetstream/server"
	"example.org/bridge/tests/faulty/failpoint"
)

// OnStep has hook called at each step of an atomic batch.
func OnStep(s *Sink, hook func(failpoint.Point)) { s.batcher.steps = hook }

// TooOld tells whether a server of a version has no atomic batches.
var TooOld = tooOld

// Loss is what a process says where the last claim is another's with this body.
func Loss(body string) error {
	c := claim{options: new(Options), id: "ours"}
	return c.loss(&server.Message{Data: []byte(body)})
}

// RenewEvery sets how often a sink looks whether its claim ages.
func RenewEvery(o *Options, d time.Duration) { o.renewEvery = d }
