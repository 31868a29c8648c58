package jetstream

import (
	"bridge/internal/outage"
	"bridge/sink"
)

// faults reports what is waited out: to the log without flooding, to readiness and to the hook.
type faults struct {
	log  *outage.Log
	hook sink.Fault
}

// fail notes that what is tried failed once more. what tells faults of one place apart.
func (f *faults) fail(place, what string, err error) {
	f.log.Fail(what, err)
	f.hook(place, err)
}

// end notes that it works or that nobody tries any more.
func (f *faults) end(what string) { f.log.OK(what) }
