package ledger

import "time"

// Gap is a closed range of ids that were not published.
type Gap struct {
	First, Last uint64
	// Missed is when the gap was first noticed, by the database's clock.
	Missed time.Time
}
