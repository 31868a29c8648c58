package acceptance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"github.com/nats-io/nats.go/jetstream"

	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// The tests of this file run the program against servers that want TLS and a login. Each goes
// through what an operator meets: what is right, what is wrong, what has expired, and what is
// replaced while the program runs.

// attempt is one way to connect.
type attempt struct {
	name string
	env  world.Env
	// refused is what /readyz says, empty where events have to come.
	refused string
}

// attempts runs each attempt as a daemon of its own.
func attempts(t *testing.T, table *world.World, base world.Env, all []attempt) {
	t.Helper()
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			d := world.NewDaemon(t, world.Binary(t, false), base.With(a.env))
			d.Start()
			if a.refused == "" {
				arrives(t, d, table)
			} else {
				refused(t, d, a.refused)
			}
		})
	}
}

// arrives waits until a row that it commits is published and saved.
func arrives(t testing.TB, d *world.Daemon, table *world.World) {
	t.Helper()
	insertSecured(table)
	last := table.Highest("secured")
	world.Eventually(t, time.Minute, "a row arrives", func() bool { return d.Position("secured") >= last })
	world.AwaitReady(t, d)
}

// refused waits until /readyz gives a reason with these words.
func refused(t testing.TB, d *world.Daemon, words string) {
	t.Helper()
	var code int
	var body string
	defer func() {
		if t.Failed() {
			t.Logf("last answer: %d %s", code, body)
		}
	}()
	world.Eventually(t, time.Minute, "/readyz 503 with "+words, func() bool {
		code, body = d.Get("/readyz")
		return code == 503 && strings.Contains(body, words)
	})
	for _, secret := range []string{testenv.KafkaPassword, "wrong-secret", "another-secret", "pa:ss@w", "pa%3Ass%40w"} {
		if strings.Contains(body, secret) || strings.Contains(d.Log.String(), secret) {
			t.Errorf("a secret is shown: %s\n%s", body, d.Log)
		}
	}
}

// secured is the environment of the stream of these tests.
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

// newSecured makes the table of that stream.
func newSecured(t testing.TB, server *testenv.DatabaseServer) *world.World {
	t.Helper()
	w := world.Empty(t, server)
	w.Exec("CREATE TABLE secured (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, created timestamp NOT NULL DEFAULT now())")
	return w
}

// insertSecured commits one row.
func insertSecured(w *world.World) {
	w.T.Helper()
	w.Exec("INSERT INTO secured () VALUES ()")
}

// put makes the file to have what the file from has, in one step.
func put(t testing.TB, from, to string) string {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, to, string(content))
}

// write replaces a file in one step, as secrets that are mounted are replaced.
func write(t testing.TB, path, content string) string {
	t.Helper()
	if err := renameInto(path, content); err != nil {
		t.Fatal(err)
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

func TestKafkaThatWantsTLSAndALogin(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	certs, later := testenv.NewCerts(t), testenv.NewCerts(t)
	server := testenv.StartKafka(t, testenv.KafkaOptions{SASL: true, TLS: &certs})
	table := newSecured(t, testenv.MariaDB(t))
	server.CreateTopic(t, "secured", 2, nil)
	base := secured("secured").With(world.Env{
		"BRIDGE_SOURCE_URL":           table.URL,
		"BRIDGE_SINK_URL":             "kafka://" + server.SASLTLSBrokers()[0],
		"BRIDGE_KAFKA_TLS":            "true",
		"BRIDGE_KAFKA_TLS_CA":         certs.CA,
		"BRIDGE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
		"BRIDGE_KAFKA_SASL_USERNAME":  testenv.KafkaUser,
		"BRIDGE_KAFKA_SASL_PASSWORD":  testenv.KafkaPassword,
	})
	const login, authority = "login is refused", "unknown authority"
	attempts(t, table, base, []attempt{
		{"SCRAM-SHA-512", nil, ""},
		{"PLAIN", world.Env{"BRIDGE_KAFKA_SASL_MECHANISM": "PLAIN"}, ""},
		{"SCRAM-SHA-512 and a client certificate", world.Env{"BRIDGE_KAFKA_TLS_CERT": certs.ClientCert, "BRIDGE_KAFKA_TLS_KEY": certs.ClientKey}, ""},
		{"SCRAM-SHA-512 with a wrong password", world.Env{"BRIDGE_KAFKA_SASL_PASSWORD": "wrong-secret"}, login},
		{"PLAIN with a wrong password", world.Env{"BRIDGE_KAFKA_SASL_MECHANISM": "PLAIN", "BRIDGE_KAFKA_SASL_PASSWORD": "wrong-secret"}, login},
		{"an authority that did not sign", world.Env{"BRIDGE_KAFKA_TLS_CA": certs.OtherCA}, authority},
		{"the authorities of the system", world.Env{"BRIDGE_KAFKA_TLS_CA": ""}, authority},
	})
	t.Run("replaced while running", func(t *testing.T) {
		dir := t.TempDir()
		ca, password := put(t, certs.CA, filepath.Join(dir, "ca.pem")), write(t, filepath.Join(dir, "password"), testenv.KafkaPassword)
		d := world.NewDaemon(t, world.Binary(t, false), base.With(world.Env{
			"BRIDGE_KAFKA_TLS_CA": ca, "BRIDGE_KAFKA_SASL_PASSWORD": "", "BRIDGE_KAFKA_SASL_PASSWORD_FILE": password,
		}))
		d.Start()
		arrives(t, d, table)
		server.SetPassword(t, "another-secret")
		server.Certify(t, certs.ExpiredCert, certs.ExpiredKey)
		server.Restart(t)
		refused(t, d, "expired")
		server.Certify(t, later.ServerCert, later.ServerKey)
		server.Restart(t)
		refused(t, d, authority)
		put(t, later.CA, ca)
		refused(t, d, login)
		write(t, password, "another-secret\n")
		arrives(t, d, table)
	})
}

func TestNATSThatWantsTLSAndALogin(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	for _, way := range []string{"credentials", "nkey"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			natsLogins(t, way)
		})
	}
}

// natsLogins runs against a server that lets in by one of the ways.
func natsLogins(t *testing.T, way string) {
	certs, later, dir := testenv.NewCerts(t), testenv.NewCerts(t), t.TempDir()
	cert, key := put(t, certs.ServerCert, filepath.Join(dir, "cert.pem")), put(t, certs.ServerKey, filepath.Join(dir, "key.pem"))
	variable, right, stranger := "BRIDGE_NATS_CREDS", "", ""
	var login testenv.NATSOption
	if way == "credentials" {
		login, right = testenv.NATSOperator(t)
		_, stranger = testenv.NATSOperator(t)
	} else {
		variable, right, stranger = "BRIDGE_NATS_NKEY", filepath.Join(dir, "right.nk"), filepath.Join(dir, "stranger.nk")
		login = testenv.NATSNkey(t, right)
		testenv.NATSNkey(t, stranger)
	}
	server := testenv.StartNATS(t, login, testenv.NATSTLS(t, certs, cert, key, false))
	table := newSecured(t, testenv.MariaDB(t))
	server.CreateStream(t, jetstream.StreamConfig{Name: "SECURED", Subjects: []string{"secured.>"}})
	base := secured("secured.{type}").With(world.Env{
		"BRIDGE_SOURCE_URL":  table.URL,
		"BRIDGE_SINK_URL":    "nats://" + server.Addr(),
		"BRIDGE_NATS_TLS_CA": certs.CA,
		variable:             right,
	})
	const denied, authority = "Authorization Violation", "unknown authority"
	attempts(t, table, base, []attempt{
		{"right", nil, ""},
		{"a client certificate", world.Env{"BRIDGE_NATS_TLS_CERT": certs.ClientCert, "BRIDGE_NATS_TLS_KEY": certs.ClientKey}, ""},
		{"a stranger", world.Env{variable: stranger}, denied},
		{"an authority that did not sign", world.Env{"BRIDGE_NATS_TLS_CA": certs.OtherCA}, authority},
	})
	t.Run("replaced while running", func(t *testing.T) {
		ca, secret := put(t, certs.CA, filepath.Join(dir, "ca.pem")), put(t, right, filepath.Join(dir, "secret"))
		d := world.NewDaemon(t, world.Binary(t, false), base.With(world.Env{"BRIDGE_NATS_TLS_CA": ca, variable: "", variable + "_FILE": secret}))
		d.Start()
		arrives(t, d, table)
		put(t, certs.ExpiredCert, cert)
		put(t, certs.ExpiredKey, key)
		server.Restart(t)
		refused(t, d, "expired")
		put(t, later.ServerCert, cert)
		put(t, later.ServerKey, key)
		put(t, stranger, secret)
		server.Restart(t)
		refused(t, d, authority)
		put(t, later.CA, ca)
		refused(t, d, denied)
		put(t, right, secret)
		arrives(t, d, table)
	})
}

func TestMariaDBThatWantsTLS(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	certs, later, dir := testenv.NewCerts(t), testenv.NewCerts(t), t.TempDir()
	copyTo := func(from, name string) string { return put(t, from, filepath.Join(dir, name)) }
	server := testenv.StartMariaDB(t, "--ssl-ca="+copyTo(certs.CA, "server-ca.pem"),
		"--ssl-cert="+copyTo(certs.ServerCert, "cert.pem"), "--ssl-key="+copyTo(certs.ServerKey, "key.pem"))
	table := newSecured(t, server)
	for _, user := range []string{"secure@'%' IDENTIFIED BY 'pa:ss@w' REQUIRE SSL", "known@'%' IDENTIFIED BY 'pa:ss@w' REQUIRE X509"} {
		table.Exec("CREATE USER " + user)
		table.Exec("GRANT SELECT ON " + table.Name + ".* TO " + strings.Fields(user)[0])
	}
	url := func(user, password, parameters string) string {
		return server.URL(user, password, table.Name) + parameters
	}
	base := secured("").With(world.Env{"BRIDGE_SINK_URL": "stdout:"})
	source := func(url string) world.Env { return world.Env{"BRIDGE_SOURCE_URL": url} }
	trusted, client := "?tls=true&tls-ca="+certs.CA, "&tls-cert="+certs.ClientCert+"&tls-key="+certs.ClientKey
	const denied, authority = "Access denied", "unknown authority"
	attempts(t, table, base, []attempt{
		{"right", source(url("secure", "pa:ss@w", trusted)), ""},
		{"a client certificate where one is wanted", source(url("known", "pa:ss@w", trusted+client)), ""},
		{"no client certificate where one is wanted", source(url("known", "pa:ss@w", trusted)), denied},
		{"no TLS", source(url("secure", "pa:ss@w", "")), denied},
		{"a wrong password", source(url("secure", "wrong-secret", trusted)), denied},
		{"an authority that did not sign", source(url("secure", "pa:ss@w", "?tls=true&tls-ca="+certs.OtherCA)), authority},
		{"the authorities of the system", source(url("secure", "pa:ss@w", "?tls=true")), authority},
	})
	t.Run("replaced while running", func(t *testing.T) {
		ca := copyTo(certs.CA, "ca.pem")
		file := write(t, filepath.Join(dir, "url"), url("secure", "pa:ss@w", "?tls=true&tls-ca="+ca))
		d := world.NewDaemon(t, world.Binary(t, false), base.With(world.Env{"BRIDGE_SOURCE_URL_FILE": file}))
		d.Start()
		arrives(t, d, table)
		// reload has the server read its certificate and ends the connections of the program.
		reload := func(cert, key string) {
			copyTo(cert, "cert.pem")
			copyTo(key, "key.pem")
			table.Exec("FLUSH SSL")
			table.Exec("KILL USER secure")
		}
		reload(certs.ExpiredCert, certs.ExpiredKey)
		refused(t, d, "expired")
		table.Exec("ALTER USER secure@'%' IDENTIFIED BY 'another-secret'")
		reload(later.ServerCert, later.ServerKey)
		refused(t, d, authority)
		copyTo(later.CA, "ca.pem")
		refused(t, d, denied)
		write(t, file, url("secure", "another-secret", "?tls=true&tls-ca="+ca)+"\n")
		arrives(t, d, table)
	})
}
