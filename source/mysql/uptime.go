package mysql

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"bridge/source"
)

var _ source.Uptimer = (*shard)(nil)

// Started implements source.Uptimer.
func (s *shard) Started() time.Time {
	if seconds := s.source.connector.started.Load(); seconds > 0 {
		return time.Unix(seconds, 0)
	}
	return time.Time{}
}

// noteUptime has a new connection tell since when its server runs: a connection that was lost and
// made again shows nothing else of a server that was started in between.
func noteUptime(ctx context.Context, session conn, started *atomic.Int64) error {
	begun, clock, uptime := time.Now(), int64(-1), int64(-1)
	for _, q := range []struct {
		statement, column string
		value             *int64
	}{{"SELECT UNIX_TIMESTAMP() AS now", "now", &clock}, {"SHOW STATUS LIKE 'Uptime'", "Value", &uptime}} {
		err := session.query(ctx, q.statement, func(get func(string) string) {
			if n, err := strconv.ParseInt(get(q.column), 10, 64); err == nil {
				*q.value = n
			}
		})
		if err != nil && number(err) == 0 {
			return err
		}
	}
	// A compatible server may not tell, and answers that took long do not fit one another. This
	// host's clock is of no account.
	if clock >= 0 && uptime >= 0 && time.Since(begun) < slowUptime {
		started.Store(clock - uptime)
	}
	return nil
}

// slowUptime is how long the two answers may take together.
const slowUptime = time.Second
