package jetstream

import (
	"context"

	"bridge/internal/outage"
	"bridge/sink"
)

// faults reports what is waited out: to the log without flooding, to readiness and to the hook.
type faults struct {
	log  *outage.Log
	hook sink.Fault
}

// fail notes that what is tried failed once more. what tells faults of one TP apart.
func (f *faults) fail(tp, what string, err error) {
	f.log.Fail(what, err)
	f.hook(tp, err)
}

// leave is end for who was asking under ctx, and says nothing of the fault when that has given up.
func (f *faults) leave(ctx context.Context, what string) {
	if ctx.Err() != nil {
		f.log.Forget(what)
		return
	}
	f.log.OK(what)
}

// gone is end for a fault that nobody meets any more; abandoned says that it was not overcome.
func (f *faults) gone(what string, abandoned bool) {
	if abandoned {
		f.log.Forget(what)
		return
	}
	f.log.OK(what)
}

// end notes that it works or that nobody tries any more.
func (f *faults) end(what string) { f.log.OK(what) }
