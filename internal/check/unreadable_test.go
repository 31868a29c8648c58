package check

import (
	"strings"
	"testing"

	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/inspect"
)

func TestWhatCannotBeReadBack(t *testing.T) {
	const stream = "BRIDGE_STREAM_ORDERS_"
	release := []string{stream + "KIND", "release"}
	for _, c := range []struct {
		name    string
		env     []string
		code    inspect.Code
		subject string
		want    inspect.Severity
	}{
		{"a topic of a capability stream", []string{stream + "DESTINATION", "shop"}, inspect.TopicUnreadable, "topic shop", inspect.Unsafe},
		{"its dead letters", []string{stream + "DESTINATION", "shop", stream + "DEAD_LETTER", "dead"}, inspect.TopicUnreadable, "topic dead", inspect.Unsafe},
		{"a topic of another stream", []string{stream + "DESTINATION", "shop"}, inspect.TopicUnreadable, "topic log", inspect.Warning},
		{"a topic of a release stream", append(release, stream+"DESTINATION", "shop"), inspect.TopicUnreadable, "topic shop", inspect.Warning},
		{"a stream of JetStream", nil, inspect.StreamUnreadable, "stream EVENTS", inspect.Unsafe},
		{"a stream of JetStream with facts", release, inspect.StreamUnreadable, "stream EVENTS", inspect.Warning},
		{"another finding", release, inspect.TopicGrant, "topic shop", inspect.Unsafe},
	} {
		var r inspect.Report
		r.Add(inspect.Unsafe, c.code, c.subject, "may not be read")
		resolveUnreadable(&r, load(t, configtest.With(append(c.env, "BRIDGE_SINK_URL", "kafka://127.0.0.1:1")...)))
		if got := r.Findings[0]; len(r.Findings) != 1 || got.Severity != c.want || strings.Contains(got.What, "published again") != (c.want == inspect.Warning) {
			t.Errorf("%s: found %v, %v, want %v", c.name, got, got.Severity, c.want)
		}
	}
	r := inspect.Report{Summary: "stdout: prints events"}
	resolveUnreadable(&r, load(t, configtest.With("BRIDGE_SINK_URL", "stdout:")))
	if len(r.Findings) > 0 || r.Summary != "stdout: prints events, for looking: what is printed cannot be read back" {
		t.Errorf("%+v", r)
	}
}
