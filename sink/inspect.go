package sink

import (
	"context"

	"bridge/internal/inspect"
)

// Inspector is a Sink that can look at its bus for what is unsafe, unwise, or keeps it from taking
// messages. It publishes and creates nothing.
type Inspector interface {
	// Inspect looks at the bus and at the destinations that the sink was opened with. It does not
	// fail: what keeps it from looking is a finding. It returns soon after ctx ends.
	Inspect(ctx context.Context) inspect.Report
}
