package stage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"
	kafkago "github.com/segmentio/kafka-go"
	_ "modernc.org/sqlite" // the driver of the example's own file

	"example.org/bridge/client/jetstream"
	"example.org/bridge/client/kafka"
)

// openDatabase connects the writers and makes the tables, which are removed at the end. A table
// that is there already is somebody else's.
func (s *Stage) openDatabase(ctx context.Context, files fs.FS) error {
	s.env["BRIDGE_SOURCE_URL"] = cmp.Or(os.Getenv("EXAMPLE_SOURCE_URL"), "sqlite://"+filepath.Join(s.Dir, "app.db"))
	var err error
	if s.DB, s.MySQL, err = s.OpenDatabase(s.env["BRIDGE_SOURCE_URL"]); err != nil {
		return err
	}
	file := "table.sql"
	if !s.MySQL {
		file = "table.sqlite.sql"
	}
	statements, err := fs.ReadFile(files, file)
	if err != nil {
		return err
	}
	if _, err := s.DB.ExecContext(ctx, string(statements)); err != nil {
		return fmt.Errorf("make the tables of %s in a database without them: %w", file, err)
	}
	for _, table := range regexp.MustCompile("(?m)^CREATE TABLE `?(\\w+)").FindAllSubmatch(statements, -1) {
		s.AtEnd(func() error {
			_, err := s.DB.Exec("DROP TABLE " + string(table[1]))
			return err
		})
	}
	return nil
}

// OpenDatabase connects writers to a database, as BRIDGE_SOURCE_URL names it, until the end.
func (s *Stage) OpenDatabase(at string) (db *sql.DB, isMySQL bool, err error) {
	source, err := url.Parse(at)
	if err != nil {
		return nil, false, errors.New("EXAMPLE_SOURCE_URL cannot be read: write mysql://user:password@host:port/database")
	}
	if isMySQL = source.Scheme == "mysql"; isMySQL {
		config := mysql.NewConfig()
		config.Net, config.Addr, config.DBName = "tcp", source.Hostname()+":"+cmp.Or(source.Port(), "3306"), strings.TrimPrefix(source.Path, "/")
		config.User, config.TLSConfig = source.User.Username(), source.Query().Get("tls")
		config.Passwd, _ = source.User.Password()
		// An UPDATE tells how many rows it has met, as with JDBC, not how many it has changed.
		config.ClientFoundRows, config.MultiStatements = true, true
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, true, fmt.Errorf("EXAMPLE_SOURCE_URL: %w", err)
		}
		db = sql.OpenDB(connector)
	} else {
		// A transaction takes the write lock when it begins.
		db, err = sql.Open("sqlite", "file:"+source.Path+"?_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)")
		if err != nil {
			return nil, false, err
		}
	}
	s.AtEnd(db.Close)
	return db, isMySQL, nil
}

func (s *Stage) openBus(ctx context.Context) (err error) {
	s.nameOwn()
	at := os.Getenv("EXAMPLE_SINK_URL")
	if at == "" && s.layout.Server != nil {
		if at, err = s.layout.Server(s); err != nil {
			return err
		}
	}
	scheme, hosts, _ := strings.Cut(at, "://")
	servers := strings.Split(hosts, ",")
	switch scheme {
	case "":
		// The NATS server inside bridge, on a port that consumers reach.
		address, err := freeAddress()
		if err != nil {
			return err
		}
		s.env["BRIDGE_SINK_URL"] = "embedded:" + filepath.Join(s.Dir, "nats") + "?listen=" + address
		s.Bus, err = jetstream.New(jetstream.Options{URLs: []string{"nats://" + address}})
		return err
	case "nats", "tls":
		// bridge makes a stream.
		stream := strings.ToUpper(s.domain)
		s.env["BRIDGE_SINK_URL"], s.env["BRIDGE_NATS_STREAM"], s.env["BRIDGE_NATS_CREATE_STREAM"] = at, stream, "true"
		for i := range servers {
			servers[i] = scheme + "://" + servers[i]
		}
		s.AtEnd(func() error {
			nc, err := nats.Connect(strings.Join(servers, ","))
			if err != nil {
				return err
			}
			defer nc.Close()
			js, err := natsjetstream.New(nc)
			if err != nil {
				return err
			}
			err = js.DeleteStream(context.Background(), stream)
			if s.layout.Shares > 0 {
				err = errors.Join(err, js.DeleteKeyValue(context.Background(), s.progress()))
			}
			return err
		})
		s.Bus, err = jetstream.New(jetstream.Options{URLs: servers, Stream: stream})
		return err
	case "kafka":
		s.kafka, s.env["BRIDGE_SINK_URL"] = true, at
		s.Bus, err = kafka.New(kafka.Options{Brokers: servers})
		return errors.Join(err, s.makeTopics(ctx, servers))
	}
	return errors.New("EXAMPLE_SINK_URL has another scheme than kafka:// and nats://: use one of them, or leave it empty for the server inside bridge")
}

// Named returns the name that a destination in bridge.env has in this run: no other run has it.
func (s *Stage) Named(destination string) string { return s.domain + "." + destination }

func (s *Stage) nameOwn() {
	for stream := range strings.SplitSeq(s.env["BRIDGE_STREAMS"], ",") {
		begin := "BRIDGE_STREAM_" + strings.ToUpper(stream) + "_"
		if s.env[begin+"DESTINATIONS"] == "" {
			continue
		}
		for _, name := range []string{"DESTINATION", "DESTINATIONS", "DEAD_LETTER"} {
			var named []string
			for one := range strings.SplitSeq(s.env[begin+name], ",") {
				named = append(named, s.Named(one))
			}
			s.env[begin+name] = strings.Join(named, ",")
		}
	}
}

// destinations are the topics of a stream, or the subject of all events of this run; those that
// bridge.env lists, where it does.
func (s *Stage) destinations(stream string) []string {
	switch listed := s.env["BRIDGE_STREAM_"+strings.ToUpper(stream)+"_DESTINATIONS"]; {
	case listed != "":
		return strings.Split(listed, ",")
	case s.kafka:
		return []string{s.domain + "." + stream}
	}
	return []string{"eiffel.*.*.*." + s.domain}
}

// progress is the topic or bucket by which tables change their share.
func (s *Stage) progress() string { return s.domain + "-progress" }

// makeTopics makes the topics of each stream, of four partitions, and that of the progress of
// shares: bridge makes none.
func (s *Stage) makeTopics(ctx context.Context, brokers []string) error {
	admin := &kafkago.Client{Addr: kafkago.TCP(brokers...), Timeout: 30 * time.Second}
	create, remove := &kafkago.CreateTopicsRequest{}, &kafkago.DeleteTopicsRequest{}
	for stream := range strings.SplitSeq(s.env["BRIDGE_STREAMS"], ",") {
		begin := "BRIDGE_STREAM_" + strings.ToUpper(stream) + "_"
		topics := s.destinations(stream)
		if dead := s.env[begin+"DEAD_LETTER"]; dead != "" {
			topics = append(topics, dead)
		}
		if s.env[begin+"DESTINATIONS"] == "" {
			s.env[begin+"DESTINATION"] = "{domain}.{stream}"
		}
		for _, topic := range topics {
			remove.Topics = append(remove.Topics, topic)
			create.Topics = append(create.Topics, kafkago.TopicConfig{Topic: topic, NumPartitions: 4, ReplicationFactor: -1})
		}
	}
	if s.layout.Shares > 0 {
		remove.Topics = append(remove.Topics, s.progress())
		create.Topics = append(create.Topics, kafkago.TopicConfig{
			Topic: s.progress(), NumPartitions: 1, ReplicationFactor: -1,
			ConfigEntries: []kafkago.ConfigEntry{{ConfigName: "cleanup.policy", ConfigValue: "compact"}},
		})
	}
	made, err := admin.CreateTopics(ctx, create)
	if err == nil {
		err = errors.Join(slices.Collect(maps.Values(made.Errors))...)
	}
	if err != nil {
		return fmt.Errorf("make topics on the brokers of EXAMPLE_SINK_URL: %w", err)
	}
	s.AtEnd(func() error {
		_, err := admin.DeleteTopics(context.Background(), remove)
		return err
	})
	return nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
