package acceptance

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bridge/internal/testenv"
)

// loginFaults change passwords while the program runs.
var loginFaults = []fault{
	{
		name: "source-password-changed", family: "credentials", prepare: sourceURLInFile,
		what: "the database gets another password and cuts all connections; the file with it follows 10 s later",
		inject: func(tr *trial) {
			u, err := url.Parse(strings.TrimSpace(string(tr.reads(tr.secret("source")))))
			tr.check(err)
			user := u.User.Username()
			tr.lane.db.SetPassword(tr.t, user, "other/pa:ss")
			tr.lane.db.KillConnections(tr.t, user)
			tr.unreadyFor("Access denied")
			tr.outage(10 * time.Second)
			tr.putSecret("source", tr.lane.db.URL(user, "other/pa:ss", tr.name))
		},
	},
	{
		name: "bus-password-changed", family: "credentials", on: withLogin, prepare: busLoginInFile,
		what: "the bus gets another password and cuts all connections; the file with it follows 10 s later",
		inject: func(tr *trial) {
			if tr.lane.kafka != nil {
				tr.lane.kafka.SetPassword(tr.t, "other-secret")
				// Whoever is logged in stays so.
				tr.lane.kafka.Stop()
				tr.lane.kafka.Start(tr.t)
				tr.unreadyFor("the login is refused")
			} else {
				tr.lane.nats.SetPassword(tr.t, "other-secret")
				tr.unreadyFor("Authorization")
			}
			tr.outage(10 * time.Second)
			tr.putSecret("bus", tr.busSecret("other-secret"))
		},
	},
}

// secret returns the path of a file that holds a secret.
func (tr *trial) secret(name string) string {
	return filepath.Join(filepath.Dir(tr.checkpoint()), name+".secret")
}

// putSecret writes a file with a secret in one go, as a secret store does.
func (tr *trial) putSecret(name, secret string) {
	tr.t.Helper()
	path := tr.secret(name)
	tr.check(os.WriteFile(path+".new", []byte(secret+"\n"), 0o600))
	tr.check(os.Rename(path+".new", path))
}

// sourceURLInFile puts the source's URL into a file.
func sourceURLInFile(tr *trial) {
	tr.putSecret("source", tr.env["BRIDGE_SOURCE_URL"])
	tr.env["BRIDGE_SOURCE_URL_FILE"] = tr.secret("source")
	delete(tr.env, "BRIDGE_SOURCE_URL")
}

// withLogin returns a lane whose NATS wants a login; Kafka has a listener that does.
func withLogin(t testing.TB, l *lane) *lane {
	t.Helper()
	if l.kafka != nil {
		return l
	}
	other := *l
	other.nats = testenv.StartNATS(t, testenv.NATSPassword(testenv.KafkaUser, testenv.KafkaPassword))
	other.bus = natsBus{other.nats}
	return &other
}

// busLoginInFile has the program log in with a password from a file.
func busLoginInFile(tr *trial) {
	if tr.lane.kafka == nil {
		tr.env["BRIDGE_SINK_URL_FILE"] = tr.secret("bus")
		delete(tr.env, "BRIDGE_SINK_URL")
	} else {
		tr.lane.kafka.SetPassword(tr.t, testenv.KafkaPassword)
		tr.env["BRIDGE_SINK_URL"] = "kafka://" + tr.lane.kafka.SASLBrokers()[0]
		tr.env["BRIDGE_KAFKA_SASL_MECHANISM"] = "SCRAM-SHA-512"
		tr.env["BRIDGE_KAFKA_SASL_USERNAME"] = testenv.KafkaUser
		tr.env["BRIDGE_KAFKA_SASL_PASSWORD_FILE"] = tr.secret("bus")
	}
	tr.putSecret("bus", tr.busSecret(testenv.KafkaPassword))
}

// busSecret is what the file with the bus's login holds for a password.
func (tr *trial) busSecret(password string) string {
	if tr.lane.kafka != nil {
		return password
	}
	return fmt.Sprintf("nats://%s@%s", url.UserPassword(testenv.KafkaUser, password), tr.lane.nats.Addr())
}
