package shard

import (
	"testing"
	"time"
)

func TestQuestionsAboutServersThatTakeTurns(t *testing.T) {
	var q questions
	start := time.Unix(1000, 0)
	var asked []time.Duration
	for at := time.Duration(0); at < 10*time.Minute; at += 100 * time.Millisecond {
		if q.due(start.Add(at)) {
			asked = append(asked, at)
		}
	}
	if len(asked) < 10 || len(asked) > 20 || asked[0] != 0 || asked[1] > 2*time.Second {
		t.Errorf("asked at %v", asked)
	}
	if !q.due(start.Add(time.Hour)) || q.due(start.Add(time.Hour+askAgainAfter/2)) || !q.due(start.Add(time.Hour+askAgainAfter)) {
		t.Error("a server that has been the same for long is not met at once")
	}
}
