package reconcile

import (
	"bytes"
	"fmt"
	"time"

	"bridge/internal/failpoint"
	"bridge/source"
)

// mutantKeep keeps what the scan saw, for the owner to publish 2 s later.
func (p *pass) mutantKeep(page *source.Page) {
	for _, r := range page.Rows {
		values := make([][]byte, len(r.Values))
		for i, value := range r.Values {
			values[i] = bytes.Clone(value)
		}
		failpoint.Kept.Store(fmt.Sprint(p.key(), r.ID), values)
	}
	<-time.After(2 * time.Second)
}
