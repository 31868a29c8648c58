package world

import (
	"fmt"
	"testing"
	"time"

	"bridge/tests/workload"
)

// BenchmarkJudge says what a message costs that a judge sees.
func BenchmarkJudge(b *testing.B) {
	b.Run("rows", func(b *testing.B) {
		begun := time.Now()
		rows, tape := make([]workload.Row, b.N), make([]Message, b.N)
		for i := range rows {
			entity := fmt.Sprintf("e-%d", i)
			rows[i] = workload.Row{
				Table: "orders", Entity: entity, Token: fmt.Sprintf("t-%d", i), Version: 1, Fate: workload.Committed,
				Begun: begun, CommitBegun: begun, CommitEnded: begun,
			}
			tape[i] = message(i, entity, "tail")
		}
		b.ReportAllocs()
		b.ResetTimer()
		NewRowJudge(b, rows, Expect{Steady: true}).Messages(tape)
	})
	b.Run("entities", func(b *testing.B) {
		histories, tape := []workload.History{{App: "a", Name: "x"}}, make([]Message, b.N)
		for i := range tape {
			op := "Modified"
			if i == 0 {
				op = "Added"
			}
			tape[i] = stateMessage(i+1, i, op, "x", i)
			histories[0].Versions = append(histories[0].Versions, workload.Version{Condition: workload.Live, State: uint64(i)})
		}
		b.ReportAllocs()
		b.ResetTimer()
		NewEntityJudge(b, histories, Expect{}).Messages(tape)
	})
}
