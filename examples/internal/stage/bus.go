package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"
	kafkago "github.com/segmentio/kafka-go"

	"bridge/client"
	"bridge/client/jetstream"
	"bridge/client/kafka"
)

// Options say which stream of bridge a consumer reads.
func (s *Stage) Options(stream string) client.Options {
	return client.Options{
		Stream: stream, Domain: s.domain(), Destinations: []string{s.destination(stream)}, Logger: slog.New(slog.NewTextHandler(s.clientLog, nil)),
	}
}

// destination is the topic of a stream, or the subject of all events of this run.
func (s *Stage) destination(stream string) string {
	if s.kafka {
		return s.domain() + "." + stream
	}
	return "eiffel.*.*.*." + s.domain()
}

// openBus leads env and the consumers to the bus.
func (s *Stage) openBus(ctx context.Context, env map[string]string) error {
	at := os.Getenv("EXAMPLE_SINK_URL")
	scheme, hosts, _ := strings.Cut(at, "://")
	servers := strings.Split(hosts, ",")
	switch {
	case at == "":
		return s.embedded(env)
	case scheme == "nats" || scheme == "tls":
		for i, server := range servers {
			servers[i] = scheme + "://" + server
		}
		return s.nats(env, at, servers)
	case scheme == "kafka":
		return s.onKafka(ctx, env, at, servers)
	}
	return errors.New("EXAMPLE_SINK_URL has another scheme than kafka:// and nats://: use one of them, or leave it empty for the server inside bridge")
}

// embedded has bridge run the NATS server inside it, on a port that stays when bridge is killed.
func (s *Stage) embedded(env map[string]string) (err error) {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	env["BRIDGE_SINK_URL"] = (&url.URL{Scheme: "embedded", Path: s.path("nats"), RawQuery: "listen=" + url.QueryEscape(address)}).String()
	s.Bus, err = jetstream.New(jetstream.Options{URLs: []string{"nats://" + address}})
	return err
}

// nats has bridge make a stream on the servers, which is removed at the end.
func (s *Stage) nats(env map[string]string, at string, servers []string) (err error) {
	stream := strings.ToUpper(s.domain())
	env["BRIDGE_SINK_URL"], env["BRIDGE_NATS_STREAM"], env["BRIDGE_NATS_CREATE_STREAM"] = at, stream, "true"
	s.atEnd(func(ctx context.Context) error { return removeStream(ctx, servers, stream) })
	s.Bus, err = jetstream.New(jetstream.Options{URLs: servers, Stream: stream})
	return err
}

func removeStream(ctx context.Context, servers []string, stream string) error {
	nc, err := nats.Connect(strings.Join(servers, ","))
	if err != nil {
		return fmt.Errorf("remove the stream %s: %w", stream, err)
	}
	defer nc.Close()
	js, err := natsjetstream.New(nc)
	if err != nil {
		return err
	}
	if err := js.DeleteStream(ctx, stream); err != nil && !errors.Is(err, natsjetstream.ErrStreamNotFound) {
		return fmt.Errorf("remove the stream %s: %w", stream, err)
	}
	return nil
}

// partitions is how many a topic of an example has.
const partitions = 4

// onKafka makes a topic for each stream, which is removed at the end: bridge makes none.
func (s *Stage) onKafka(ctx context.Context, env map[string]string, at string, brokers []string) (err error) {
	s.kafka = true
	env["BRIDGE_SINK_URL"] = at
	admin := &kafkago.Client{Addr: kafkago.TCP(brokers...), Timeout: closeWithin}
	create, remove := &kafkago.CreateTopicsRequest{}, &kafkago.DeleteTopicsRequest{}
	for stream := range strings.SplitSeq(env["BRIDGE_STREAMS"], ",") {
		topic := s.destination(stream)
		env["BRIDGE_STREAM_"+strings.ToUpper(stream)+"_DESTINATION"] = "{domain}.{stream}"
		create.Topics = append(create.Topics, kafkago.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: -1})
		remove.Topics = append(remove.Topics, topic)
	}
	made, err := admin.CreateTopics(ctx, create)
	if err != nil {
		return fmt.Errorf("make topics on the brokers of EXAMPLE_SINK_URL: %w", err)
	}
	for topic, err := range made.Errors {
		if err != nil {
			return fmt.Errorf("make the topic %s: %w", topic, err)
		}
	}
	s.atEnd(func(ctx context.Context) error {
		removed, err := admin.DeleteTopics(ctx, remove)
		if err != nil {
			return fmt.Errorf("remove topics: %w", err)
		}
		for topic, failed := range removed.Errors {
			if failed != nil {
				err = cmp.Or(err, fmt.Errorf("remove the topic %s: %w", topic, failed))
			}
		}
		return err
	})
	s.Bus, err = kafka.New(kafka.Options{Brokers: brokers})
	return err
}

// freeAddress returns a free port of the loopback.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
