package jetstream_test

import (
	"fmt"
	"testing"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/sink/sinktest"
	"bridge/tests/testenv"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// BenchmarkRead reads a stream of a real server: BRIDGE_TEST_REAL=1 go test -bench Read. Its
// messages have 200 bytes and the 12 headers that the sink gives them.
func BenchmarkRead(b *testing.B) {
	const messages = 200_000
	server := testenv.StartNATS(b)
	name := server.CreateStream(b, natsjs.StreamConfig{}).CachedInfo().Config.Name
	s := open(b, jetstream.Options{URLs: []string{server.URL()}, Stream: name})
	for part := range messages / 5000 {
		mustPublish(b, s, ours(name+".a", fmt.Sprint("s", part), 5000))
	}
	for _, filter := range []string{"", name + ".*"} {
		b.Run("filter="+filter[min(len(filter), len(name)):], func(b *testing.B) {
			o := jetstream.Options{URLs: []string{server.URL()}, Stream: name}
			if filter != "" {
				o.Readable = []string{filter}
			}
			s := open(b, o)
			sinktest.BenchmarkRead(b, s, sink.Span{TP: name, From: 1, To: messages + 1})
		})
	}
}
