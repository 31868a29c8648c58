package torture

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testenv"
)

// loginFaults change passwords while the program runs.
var loginFaults = []fault{
	{
		name: "source-password-changed", family: "credentials", prepare: sourceURLInFile,
		what: "the database gets another password and cuts all connections; the file with it follows 10 s later",
		inject: func(tr *trial) {
			u, err := url.Parse(strings.TrimSpace(string(tr.reads(secrets{tr}.secret("source")))))
			tr.check(err)
			user := u.User.Username()
			tr.servers.db.SetPassword(tr.T, user, "other/pa:ss")
			tr.servers.db.KillConnections(tr.T, user)
			tr.unreadyFor("Access denied")
			tr.outage(10 * time.Second)
			secrets{tr}.putSecret("source", tr.servers.db.URL(user, "other/pa:ss", tr.World.Name))
		},
	},
	{
		name: "bus-password-changed", family: "credentials", on: withLogin, prepare: busLoginInFile,
		what: "the bus gets another password and cuts all connections; the file with it follows 10 s later",
		inject: func(tr *trial) {
			if tr.Bus.Kafka != nil {
				tr.Bus.Kafka.SetPassword(tr.T, "other-secret")
				// Who is logged in stays so.
				tr.Bus.Kafka.Stop()
				tr.Bus.Kafka.Start(tr.T)
				tr.unreadyFor("the login is refused")
			} else {
				tr.Bus.NATS.SetPassword(tr.T, "other-secret")
				tr.unreadyFor("Authorization")
			}
			tr.outage(10 * time.Second)
			secrets{tr}.putSecret("bus", secrets{tr}.busSecret("other-secret"))
		},
	},
}

// secrets are the files of a trial that hold logins.
type secrets struct{ *trial }

// secret returns the path of a file that holds a secret.
func (tr secrets) secret(name string) string {
	return filepath.Join(filepath.Dir(tr.checkpoint()), name+".secret")
}

// putSecret writes a file with a secret in one go, as a secret store does.
func (tr secrets) putSecret(name, secret string) {
	tr.T.Helper()
	path := tr.secret(name)
	tr.check(os.WriteFile(path+".new", []byte(secret+"\n"), 0o600))
	tr.check(os.Rename(path+".new", path))
}

// sourceURLInFile puts the source's URL into a file.
func sourceURLInFile(tr *trial) {
	secrets{tr}.putSecret("source", tr.Env["BRIDGE_SOURCE_URL"])
	tr.Env["BRIDGE_SOURCE_URL_FILE"] = secrets{tr}.secret("source")
	delete(tr.Env, "BRIDGE_SOURCE_URL")
}

// withLogin returns servers whose NATS wants a login; Kafka has a listener that does.
func withLogin(t testing.TB, s *servers) *servers {
	t.Helper()
	if s.bus.Kafka != nil {
		return s
	}
	return s.with(world.NATSBus(testenv.StartNATS(t, testenv.NATSPassword(testenv.KafkaUser, testenv.KafkaPassword))))
}

// busLoginInFile has the program log in with a password from a file.
func busLoginInFile(tr *trial) {
	if tr.Bus.Kafka == nil {
		tr.Env["BRIDGE_SINK_URL_FILE"] = secrets{tr}.secret("bus")
		delete(tr.Env, "BRIDGE_SINK_URL")
	} else {
		tr.Bus.Kafka.SetPassword(tr.T, testenv.KafkaPassword)
		tr.Env["BRIDGE_SINK_URL"] = "kafka://" + tr.Bus.Kafka.SASLBrokers()[0]
		tr.Env["BRIDGE_KAFKA_SASL_MECHANISM"] = "SCRAM-SHA-512"
		tr.Env["BRIDGE_KAFKA_SASL_USERNAME"] = testenv.KafkaUser
		tr.Env["BRIDGE_KAFKA_SASL_PASSWORD_FILE"] = secrets{tr}.secret("bus")
	}
	secrets{tr}.putSecret("bus", secrets{tr}.busSecret(testenv.KafkaPassword))
}

// busSecret is what the file with the bus's login holds for a password.
func (tr secrets) busSecret(password string) string {
	if tr.Bus.Kafka != nil {
		return password
	}
	return fmt.Sprintf("nats://%s@%s", url.UserPassword(testenv.KafkaUser, password), tr.Bus.NATS.Addr())
}
