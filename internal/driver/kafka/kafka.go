package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/standby"
	standbykafka "example.org/bridge/internal/standby/kafka"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/sink/kafka"
	"example.org/bridge/sink/kafka/mskiam"
)

type settings struct {
	KafkaCompression         string        `env:"KAFKA_COMPRESSION" envDefault:"none" oneof:"none,gzip,snappy,lz4,zstd" doc:"Compression of batches. Every client reads none and gzip; some need a package for the others, see docs/how-to.md."`
	KafkaTransactionalID     string        `env:"KAFKA_TRANSACTIONAL_ID" example:"bridge.orders" doc:"With BRIDGE_DELIVERY=exactly-once, the transactional id: the process that began last under it is the one that publishes. Default: bridge. and BRIDGE_DOMAIN_ID. Bridges of one domain with different streams need different ones."`
	KafkaTransactionInterval time.Duration `env:"KAFKA_TRANSACTION_INTERVAL" envDefault:"100ms" min:"1ms" max:"10s" doc:"With BRIDGE_DELIVERY=exactly-once, how long a transaction takes in batches at most. It ends earlier when none is ready."`
	KafkaTLS                 bool          `env:"KAFKA_TLS" envDefault:"false" doc:"Use TLS for connections to the brokers."`
	KafkaTLSCA               string        `env:"KAFKA_TLS_CA" example:"/etc/bridge/ca.pem" doc:"PEM file with the certificate authorities to trust, instead of the system's."`
	KafkaTLSCert             string        `env:"KAFKA_TLS_CERT" example:"/etc/bridge/cert.pem" doc:"PEM file with the client certificate."`
	KafkaTLSKey              string        `env:"KAFKA_TLS_KEY" example:"/etc/bridge/key.pem" doc:"PEM file with the key of the client certificate."`
	KafkaSASLMechanism       string        `env:"KAFKA_SASL_MECHANISM" oneof:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,AWS_MSK_IAM" doc:"How to log in. Default: no login. OAUTHBEARER needs a token, AWS_MSK_IAM TLS, a region and credentials that the AWS SDK finds; the others a user and a password."`
	KafkaSASLUsername        string        `env:"KAFKA_SASL_USERNAME" example:"bridge" doc:"The user to log in as."`
	KafkaSASLPassword        string        `env:"KAFKA_SASL_PASSWORD" secret:"true" spaces:"kept" example:"password" doc:"The password of that user."`
	KafkaSASLToken           string        `env:"KAFKA_SASL_TOKEN" secret:"true" example:"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJicmlkZ2UifQ.c2lnbmF0dXJl" doc:"With OAUTHBEARER, the access token. It expires: have a sidecar or an agent keep the file of the _FILE form fresh."`
	KafkaSASLAWSRegion       string        `env:"KAFKA_SASL_AWS_REGION" example:"eu-west-1" doc:"With AWS_MSK_IAM, the region of the cluster. Default: AWS_REGION."`
}

// Names of settings that no other package has in its texts.
const (
	token  option.Name = "KAFKA_SASL_TOKEN"
	region option.Name = "KAFKA_SASL_AWS_REGION"
)

const (
	// awsRegion is the variable that the programs of AWS have in common.
	awsRegion    = "AWS_REGION"
	withPassword = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"
)

// Driver implements [driver.Shared] and [driver.Readable].
type Driver struct {
	settings settings
	// Options are the options of each connection.
	Options kafka.Options
}

var (
	_ driver.Shared   = (*Driver)(nil)
	_ driver.Readable = (*Driver)(nil)
)

func (*Driver) Scheme() string { return "kafka" }

func (d *Driver) Settings() []driver.Settings {
	return []driver.Settings{{Title: "Kafka", Fields: &d.settings}}
}

func (d *Driver) Load(in *driver.Input) driver.BusTraits {
	s := &d.settings
	a, err := driver.ParseAuthority("kafka", in.URL, "9092")
	switch {
	case err != nil:
		in.Fault(option.SinkURL, "%v", err)
	case a.User != nil:
		in.Fault(option.SinkURL, "has a login before the host: write it to %s and %s", option.KafkaSASLUsername, option.KafkaSASLPassword)
	}
	d.Options = kafka.Options{
		Connection:  kafka.Connection{Brokers: a.Hosts, SASL: d.login(in)},
		Compression: kafka.Compression(s.KafkaCompression),
	}
	traits := driver.BusTraits{
		Servers: a.Hosts, Protocol: "kafka", KeyBinding: "kafka", Destinations: driver.Topics,
		Transactions: true, Tombstones: true, LogsOutages: true,
		Agreed: map[option.Name]string{option.KafkaTransactionID: ""},
	}
	switch {
	case in.ExactlyOnce:
		d.Options.TransactionalID = cmp.Or(s.KafkaTransactionalID, "bridge."+in.DomainID)
		d.Options.TransactionInterval = s.KafkaTransactionInterval
		traits.Agreed[option.KafkaTransactionID] = d.Options.TransactionalID
	case s.KafkaTransactionalID != "":
		in.Warn(option.KafkaTransactionID, "has no effect without %s=exactly-once", option.Delivery)
	}
	if !in.ExactlyOnce && s.KafkaTransactionInterval != 100*time.Millisecond {
		in.Warn("KAFKA_TRANSACTION_INTERVAL", "has no effect without %s=exactly-once", option.Delivery)
	}
	files := driver.TLS{CA: s.KafkaTLSCA, Cert: s.KafkaTLSCert, Key: s.KafkaTLSKey}
	in.TLS("KAFKA_TLS_", files)
	switch {
	case s.KafkaTLS:
		d.Options.TLS = files.Config()
		traits.Protocol = "kafka-secure"
	case !in.Faulty(option.KafkaTLS):
		for name, path := range map[option.Name]string{option.KafkaTLSCA: files.CA, "KAFKA_TLS_CERT": files.Cert, "KAFKA_TLS_KEY": files.Key} {
			if path != "" {
				in.Fault(name, "is set, but %s is not true: set %s=true or unset this", option.KafkaTLS, option.KafkaTLS)
			}
		}
	}
	return traits
}

// login returns nil where nobody logs in.
func (d *Driver) login(in *driver.Input) *kafka.SASL {
	s, mechanism := &d.settings, option.KafkaSASLMechanism
	if in.Faulty(mechanism) {
		return nil
	}
	login := &kafka.SASL{Mechanism: s.KafkaSASLMechanism}
	var used []option.Name
	switch login.Mechanism {
	case "":
		login = nil
	case kafka.OAuthBearer:
		used = []option.Name{token}
		login.Token = d.token(in)
	case mskiam.Name:
		used = []option.Name{region}
		login.Custom = mskiam.New(mskiam.Options{Region: d.region(in)})
	default:
		used = []option.Name{option.KafkaSASLUsername, option.KafkaSASLPassword}
		login.Username, login.Password = s.KafkaSASLUsername, d.password(in)
	}
	for _, part := range []struct {
		name              option.Name
		mechanisms, value string
	}{
		{option.KafkaSASLUsername, withPassword, s.KafkaSASLUsername},
		{option.KafkaSASLPassword, withPassword, s.KafkaSASLPassword},
		{token, kafka.OAuthBearer, s.KafkaSASLToken},
		{region, mskiam.Name, s.KafkaSASLAWSRegion},
	} {
		switch {
		case part.value == "" || slices.Contains(used, part.name):
		case login == nil:
			in.Fault(part.name, "is set, but %s is not: set it to one of %s, or unset this", mechanism, part.mechanisms)
		default:
			in.Warn(part.name, "has no effect with %s=%s", mechanism, login.Mechanism)
		}
	}
	return login
}

func (d *Driver) password(in *driver.Input) driver.Secret {
	s, mechanism := &d.settings, option.KafkaSASLMechanism
	if s.KafkaSASLUsername == "" {
		in.Fault(option.KafkaSASLUsername, "is not set, but %s is: set the user to log in as", mechanism)
	}
	if s.KafkaSASLPassword == "" && !in.Faulty(option.KafkaSASLPassword) {
		in.Fault(option.KafkaSASLPassword, "is not set, but %s is: set it, or %s", mechanism, option.KafkaSASLPassword+"_FILE")
	}
	if s.KafkaSASLMechanism == "PLAIN" && !s.KafkaTLS {
		in.Warn(mechanism, "PLAIN without %s=true sends the password readable over the network", option.KafkaTLS)
	}
	read, _ := in.Secret(option.KafkaSASLPassword)
	return func() (string, error) {
		text, err := read()
		in.Hide(text)
		return text, err
	}
}

// token completes a login by token, which is replaced every hour, say: the last one is kept out of
// logs.
func (d *Driver) token(in *driver.Input) driver.Secret {
	s, mechanism := &d.settings, option.KafkaSASLMechanism
	switch {
	case s.KafkaSASLToken == "" && !in.Faulty(token):
		in.Fault(option.KafkaSASLTokenFile, "is not set, but %s=%s is: name the file that holds the access token", mechanism, s.KafkaSASLMechanism)
	case strings.ContainsAny(s.KafkaSASLToken, " \t\r\n"):
		in.Fault(token, "holds white space: give the token alone")
	default:
		in.Hide(s.KafkaSASLToken)
	}
	if !s.KafkaTLS {
		in.Warn(mechanism, "%s without %s=true sends the token readable over the network", s.KafkaSASLMechanism, option.KafkaTLS)
	}
	read, _ := in.Secret(token)
	last := s.KafkaSASLToken
	var mu sync.Mutex
	return func() (string, error) {
		text, err := read()
		if err != nil {
			return "", err
		}
		mu.Lock()
		defer mu.Unlock()
		if text != last {
			in.Replace(last, text)
			last = text
		}
		return text, nil
	}
}

func (d *Driver) region(in *driver.Input) string {
	s, mechanism := &d.settings, option.KafkaSASLMechanism
	at := cmp.Or(s.KafkaSASLAWSRegion, in.Others(awsRegion))
	if at == "" {
		in.Fault(region, "is not set, nor is %s, but %s=%s is: set the region of the cluster, such as eu-west-1", awsRegion, mechanism, s.KafkaSASLMechanism)
	}
	if !s.KafkaTLS && !in.Faulty(option.KafkaTLS) {
		in.Fault(option.KafkaTLS, "is not true, but %s=%s is set: brokers take it with TLS only, so set %s=true", mechanism, s.KafkaSASLMechanism, option.KafkaTLS)
	}
	return at
}

func (d *Driver) options(u driver.Use) kafka.Options {
	o := d.Options
	o.Topics, o.Uncompactable, o.Asked = u.Topics, u.Uncompactable, u.Asked
	o.Logger, o.Fault, o.Session = u.Logger, u.Fault, u.Session
	if o.TransactionalID != "" && u.Share != "" {
		o.TransactionalID += "." + u.Share
	}
	return o
}

func (d *Driver) Open(u driver.Use) (sink.Sink, error) { return kafka.Open(d.options(u)) }

func (d *Driver) Read(ctx context.Context, u driver.Use, what driver.Reading) (*verify.Bus, error) {
	o := d.options(u)
	o.ClientID, o.Topics, o.GiveUpAfter = "bridge-verify", what.Destinations, driver.GiveUpAfter
	reader, err := kafka.Open(o)
	if err != nil {
		return nil, err
	}
	return verify.OpenBus(ctx, verify.BusOptions{Reader: reader, Topics: what.Destinations})
}

// Group returns the name of the consumer group.
func (*Driver) Group(name string) string { return "bridge-standby." + name }

func (d *Driver) Elector(name string, silence time.Duration, u driver.Use) (standby.Elector, error) {
	r, err := kafka.NewRequester(d.options(u))
	if err != nil {
		return nil, err
	}
	return standbykafka.New(r, d.Group(name), silence), nil
}

func (d *Driver) Grant(name string) string {
	user := "<user>"
	if login := d.Options.SASL; login != nil {
		user = cmp.Or(login.Username, user)
	}
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:%s --operation Read --group %s",
		d.Options.Brokers[0], user, d.Group(name))
}

// Progress opens a topic, whatever the delivery of events: an older copy is safe, so copies need no
// transaction.
func (d *Driver) Progress(topic string, giveUp time.Duration, u driver.Use) (buscopy.Bucket, sink.Inspector, error) {
	o := d.options(u)
	o.Topics, o.Table, o.ClientID, o.GiveUpAfter = []string{topic}, true, "bridge-progress", giveUp
	o.TransactionalID, o.Uncompactable, o.Asked, o.Compression = "", nil, nil, kafka.None
	s, err := kafka.Open(o)
	if err != nil {
		return nil, nil, err
	}
	return buscopy.NewTopic(s, topic, kafka.CreateTable(o.Brokers[0], topic)), s, nil
}
