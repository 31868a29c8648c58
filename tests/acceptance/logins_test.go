package acceptance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// The tests of this file run the program against servers that want TLS, a certificate and a login:
// what has expired, what is wrong, and what is replaced while the program runs.

func rowArrives(t testing.TB, d *world.Daemon, table *world.World) {
	t.Helper()
	insertSecured(table)
	last := table.Highest("secured")
	world.Eventually(t, time.Minute, "a row arrives", func() bool { return d.Position("secured") >= last })
	world.AwaitReady(t, d)
}

func refused(t testing.TB, d *world.Daemon, words string) {
	t.Helper()
	body := world.AwaitUnready(t, d, words)
	for _, secret := range []string{testenv.KafkaPassword, "wrong-secret", "another-secret", "pa:ss@w", "pa%3Ass%40w"} {
		if strings.Contains(body, secret) || strings.Contains(d.Log.String(), secret) {
			t.Errorf("a secret is shown: %s\n%s", body, d.Log)
		}
	}
}

func secured(destination string) world.Env {
	return world.Env{
		"BRIDGE_STREAMS":                    "secured",
		"BRIDGE_STABILITY_WINDOW":           "0s",
		"BRIDGE_STREAM_SECURED_TABLE":       "secured",
		"BRIDGE_STREAM_SECURED_KIND":        "release",
		"BRIDGE_STREAM_SECURED_CREATED":     "created",
		"BRIDGE_STREAM_SECURED_DESTINATION": destination,
	}
}

func newSecured(t testing.TB, server *testenv.DatabaseServer) *world.World {
	t.Helper()
	w := world.Empty(t, server)
	w.Exec("CREATE TABLE secured (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, created timestamp NOT NULL DEFAULT now())")
	return w
}

func insertSecured(w *world.World) {
	w.T.Helper()
	w.Exec("INSERT INTO secured () VALUES ()")
}

// put makes the file to have what the file from has, in one step.
func put(t testing.TB, from, to string) string {
	t.Helper()
	content := must.Get(os.ReadFile(from))(t)
	return write(t, to, string(content))
}

// write replaces a file in one step, as secrets that are mounted are replaced.
func write(t testing.TB, path, content string) string {
	t.Helper()
	if err := renameInto(path, content); err != nil {
		t.Error(err)
	}
	return path
}

// renameInto replaces a file, so that no reader finds half of it.
func renameInto(path, content string) error {
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// secureServer is one that wants TLS, a certificate and a login, and how it is changed while the
// program runs.
type secureServer struct {
	*testing.T
	certs, later testenv.Certs
	table        *world.World
	// ca and secret are files that the program reads: what it trusts, and its login.
	ca, secret string
	env        world.Env
	// show has the server show another certificate, changeLogin refuse the secret as refusal says,
	// and until login is called.
	show               func(cert, key string)
	changeLogin, login func()
	refusal            string
}

func (g *secureServer) file(name string) string { return filepath.Join(filepath.Dir(g.ca), name) }

// TestServersThatWantTLSAndALogin has a certificate expire, another authority sign the next one,
// and the login change, each while the program runs.
func TestServersThatWantTLSAndALogin(t *testing.T) {
	testall.Beside(t)
	for name, start := range map[string]func(*secureServer){
		"Kafka": secureKafka, "MariaDB": secureMariaDB,
		"NATS with credentials": func(g *secureServer) {
			login, right := testenv.NATSOperator(t)
			_, wrong := testenv.NATSOperator(t)
			secureNATS(g, login, "BRIDGE_NATS_CREDS", right, wrong)
		},
		"NATS with an nkey": func(g *secureServer) {
			right, wrong := g.file("right.nk"), g.file("wrong.nk")
			login := testenv.NATSNkey(t, right)
			testenv.NATSNkey(t, wrong)
			secureNATS(g, login, "BRIDGE_NATS_NKEY", right, wrong)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &secureServer{T: t, certs: testenv.NewCerts(t), later: testenv.NewCerts(t), ca: filepath.Join(t.TempDir(), "ca.pem")}
			put(t, g.certs.CA, g.ca)
			g.secret = g.file("secret")
			start(g)
			d := world.NewDaemon(t, world.Binary(t, false), secured("").With(world.Env{"BRIDGE_SOURCE_URL": g.table.URL}).With(g.env))
			d.Start()
			rowArrives(t, d, g.table)
			g.show(g.certs.ExpiredCert, g.certs.ExpiredKey)
			refused(t, d, "expired")
			g.changeLogin()
			g.show(g.later.ServerCert, g.later.ServerKey)
			refused(t, d, "unknown authority")
			put(t, g.later.CA, g.ca)
			refused(t, d, g.refusal)
			g.login()
			rowArrives(t, d, g.table)
		})
	}
}

func secureKafka(g *secureServer) {
	server := testenv.StartKafka(g, testenv.KafkaOptions{SASL: true, TLS: &g.certs})
	server.CreateTopic(g, "secured", 2, nil)
	g.table = newSecured(g, testenv.MariaDB(g))
	g.env = world.Env{
		"BRIDGE_SINK_URL": "kafka://" + server.SASLTLSBrokers()[0], "BRIDGE_STREAM_SECURED_DESTINATION": "secured", "BRIDGE_KAFKA_TLS": "true",
		"BRIDGE_KAFKA_TLS_CA": g.ca, "BRIDGE_KAFKA_TLS_CERT": g.certs.ClientCert, "BRIDGE_KAFKA_TLS_KEY": g.certs.ClientKey,
		"BRIDGE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512", "BRIDGE_KAFKA_SASL_USERNAME": testenv.KafkaUser,
		"BRIDGE_KAFKA_SASL_PASSWORD_FILE": write(g, g.secret, testenv.KafkaPassword),
	}
	plain := world.NewDaemon(g, world.Binary(g, false), secured("").With(world.Env{"BRIDGE_SOURCE_URL": g.table.URL}).With(g.env).With(world.Env{"BRIDGE_KAFKA_SASL_MECHANISM": "PLAIN"}))
	plain.Start()
	rowArrives(g, plain, g.table)
	plain.Kill()
	g.show = func(cert, key string) { server.Certify(g, cert, key); server.Restart(g) }
	g.changeLogin, g.refusal = func() { server.SetPassword(g, "another-secret") }, "login is refused"
	g.login = func() { write(g, g.secret, "another-secret\n") }
}

func secureNATS(g *secureServer, login testenv.NATSOption, variable, right, wrong string) {
	cert, key := put(g, g.certs.ServerCert, g.file("cert.pem")), put(g, g.certs.ServerKey, g.file("key.pem"))
	server := testenv.StartNATS(g, login, testenv.NATSTLS(g, g.certs, cert, key, true))
	server.CreateStream(g, jetstream.StreamConfig{Name: "SECURED", Subjects: []string{"secured.>"}})
	g.table = newSecured(g, testenv.MariaDB(g))
	g.env = world.Env{
		"BRIDGE_SINK_URL": "nats://" + server.Addr(), "BRIDGE_STREAM_SECURED_DESTINATION": "secured.{type}", "BRIDGE_NATS_TLS_CA": g.ca,
		"BRIDGE_NATS_TLS_CERT": g.certs.ClientCert, "BRIDGE_NATS_TLS_KEY": g.certs.ClientKey, variable + "_FILE": put(g, right, g.secret),
	}
	g.show = func(newCert, newKey string) { put(g, newCert, cert); put(g, newKey, key); server.Restart(g) }
	g.changeLogin, g.refusal = func() { put(g, wrong, g.secret) }, "Authorization Violation"
	g.login = func() { put(g, right, g.secret) }
}

func secureMariaDB(g *secureServer) {
	cert, key := put(g, g.certs.ServerCert, g.file("cert.pem")), put(g, g.certs.ServerKey, g.file("key.pem"))
	server := testenv.StartMariaDB(g, "--ssl-ca="+put(g, g.certs.CA, g.file("server-ca.pem")), "--ssl-cert="+cert, "--ssl-key="+key)
	g.table = newSecured(g, server)
	g.table.Exec("CREATE USER secure@'%' IDENTIFIED BY 'pa:ss@w' REQUIRE X509")
	g.table.Exec("GRANT SELECT ON " + g.table.Name + ".* TO secure@'%'")
	url := func(password string) string {
		return server.URL("secure", password, g.table.Name) + "?tls=true&tls-ca=" + g.ca + "&tls-cert=" + g.certs.ClientCert + "&tls-key=" + g.certs.ClientKey + "\n"
	}
	g.env = world.Env{"BRIDGE_SINK_URL": "stdout:", "BRIDGE_SOURCE_URL": "", "BRIDGE_SOURCE_URL_FILE": write(g, g.secret, url("pa:ss@w"))}
	g.show = func(newCert, newKey string) {
		put(g, newCert, cert)
		put(g, newKey, key)
		g.table.Exec("FLUSH SSL")
		g.table.Exec("KILL USER secure")
	}
	g.changeLogin, g.refusal = func() { g.table.Exec("ALTER USER secure@'%' IDENTIFIED BY 'another-secret'") }, "Access denied"
	g.login = func() { write(g, g.secret, url("another-secret")) }
}

// TestKafkaThatWantsATokenThatExpires runs all that connects to brokers over the ends of many
// sessions: transactions, catch-up, a standby group, progress on the bus, and the commands.
func TestKafkaThatWantsATokenThatExpires(t *testing.T) {
	testall.Beside(t)
	server := testenv.StartKafka(t, testenv.KafkaOptions{OAuth: true})
	table := newSecured(t, testenv.MariaDB(t))
	server.CreateTopic(t, "secured", 2, nil)
	world.CreateCompacted(t, server, "bridge-progress")
	file := filepath.Join(t.TempDir(), "token")
	fresh := func(lasts time.Duration) {
		token := testenv.KafkaToken("bridge", testenv.KafkaScope, time.Now().Add(lasts))
		if err := renameInto(file, token+"\n"); err != nil {
			t.Error(err)
		}
	}
	fresh(-time.Minute)
	e := secured("secured").With(world.Env{
		"BRIDGE_SOURCE_URL": table.URL, "BRIDGE_SINK_URL": "kafka://" + server.OAuthBrokers()[0], "BRIDGE_DELIVERY": "exactly-once",
		"BRIDGE_CHECKPOINT_URL": "bus://" + t.TempDir(), "BRIDGE_STANDBY": "tokens", "BRIDGE_HTTP_TOKEN": "0123456789abcdef",
		"BRIDGE_KAFKA_SASL_MECHANISM": "OAUTHBEARER", "BRIDGE_KAFKA_SASL_TOKEN_FILE": file,
	})
	mustFind(t, e, "unsafe", "sink-login second-precision", "invalid_token", "the token expired at", "base64 -d")
	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Start()
	refused(t, d, "the token expired at")
	stop := every(time.Second, func() { fresh(time.Minute) })
	t.Cleanup(func() { stop() })
	rowArrives(t, d, table)
	stop()
	rows := 1
	stop = every(200*time.Millisecond, func() { fresh(testenv.KafkaSession) })
	for begin := time.Now(); time.Since(begin) < 3*testenv.KafkaSession; rows++ {
		rowArrives(t, d, table)
	}
	stop()
	stop = every(time.Second, func() { fresh(time.Minute) })
	if r := world.Verify(t, e); len(r.Faults()) > 0 {
		t.Errorf("verify finds %v", r.Faults())
	}
	if r := runCheck(t, e); len(r.find("sink-login"))+len(r.find("standby-grant")) > 0 {
		t.Errorf("check finds %v", r.findings())
	}
	if log := d.Log.String(); strings.Contains(log, "eyJ") {
		t.Errorf("a token is shown:\n%s", log)
	}
	t.Logf("%d rows, %d outages of Kafka", rows, strings.Count(d.Log.String(), "outage begins"))
}
