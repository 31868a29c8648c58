package acceptance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/world"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// The tests of this file run the program against servers that want TLS, a certificate and a login:
// what has expired, what is wrong, and what is replaced while the program runs.

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
		"BRIDGE_KAFKA_TLS_CERT":       certs.ClientCert,
		"BRIDGE_KAFKA_TLS_KEY":        certs.ClientKey,
		"BRIDGE_KAFKA_SASL_MECHANISM": "PLAIN",
		"BRIDGE_KAFKA_SASL_USERNAME":  testenv.KafkaUser,
		"BRIDGE_KAFKA_SASL_PASSWORD":  testenv.KafkaPassword,
	})
	plain := world.NewDaemon(t, world.Binary(t, false), base)
	plain.Start()
	arrives(t, plain, table)
	plain.Kill()
	dir := t.TempDir()
	ca, password := put(t, certs.CA, filepath.Join(dir, "ca.pem")), write(t, filepath.Join(dir, "password"), testenv.KafkaPassword)
	d := world.NewDaemon(t, world.Binary(t, false), base.With(world.Env{
		"BRIDGE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512", "BRIDGE_KAFKA_TLS_CA": ca, "BRIDGE_KAFKA_SASL_PASSWORD": "", "BRIDGE_KAFKA_SASL_PASSWORD_FILE": password,
	}))
	d.Start()
	arrives(t, d, table)
	server.SetPassword(t, "another-secret")
	server.Certify(t, certs.ExpiredCert, certs.ExpiredKey)
	server.Restart(t)
	refused(t, d, "expired")
	server.Certify(t, later.ServerCert, later.ServerKey)
	server.Restart(t)
	refused(t, d, "unknown authority")
	put(t, later.CA, ca)
	refused(t, d, "login is refused")
	write(t, password, "another-secret\n")
	arrives(t, d, table)
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
	variable, right, wrong := "BRIDGE_NATS_CREDS", "", ""
	var login testenv.NATSOption
	if way == "credentials" {
		login, right = testenv.NATSOperator(t)
		_, wrong = testenv.NATSOperator(t)
	} else {
		variable, right, wrong = "BRIDGE_NATS_NKEY", filepath.Join(dir, "right.nk"), filepath.Join(dir, "wrong.nk")
		login = testenv.NATSNkey(t, right)
		testenv.NATSNkey(t, wrong)
	}
	server := testenv.StartNATS(t, login, testenv.NATSTLS(t, certs, cert, key, true))
	table := newSecured(t, testenv.MariaDB(t))
	server.CreateStream(t, jetstream.StreamConfig{Name: "SECURED", Subjects: []string{"secured.>"}})
	ca, secret := put(t, certs.CA, filepath.Join(dir, "ca.pem")), put(t, right, filepath.Join(dir, "secret"))
	d := world.NewDaemon(t, world.Binary(t, false), secured("secured.{type}").With(world.Env{
		"BRIDGE_SOURCE_URL": table.URL, "BRIDGE_SINK_URL": "nats://" + server.Addr(), "BRIDGE_NATS_TLS_CA": ca, variable + "_FILE": secret,
		"BRIDGE_NATS_TLS_CERT": certs.ClientCert, "BRIDGE_NATS_TLS_KEY": certs.ClientKey,
	}))
	d.Start()
	arrives(t, d, table)
	put(t, certs.ExpiredCert, cert)
	put(t, certs.ExpiredKey, key)
	server.Restart(t)
	refused(t, d, "expired")
	put(t, later.ServerCert, cert)
	put(t, later.ServerKey, key)
	put(t, wrong, secret)
	server.Restart(t)
	refused(t, d, "unknown authority")
	put(t, later.CA, ca)
	refused(t, d, "Authorization Violation")
	put(t, right, secret)
	arrives(t, d, table)
}

// TestAPasswordOfNATSThatChanges: the server ends the connection of a program whose password it no
// longer takes. The program goes on with the one that then comes into its file.
func TestAPasswordOfNATSThatChanges(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	server, table := testenv.StartNATS(t, testenv.NATSPassword("bridge", "first-secret")), newSecured(t, testenv.MariaDB(t))
	server.CreateStream(t, jetstream.StreamConfig{Name: "SECURED", Subjects: []string{"secured.>"}})
	url := func(password string) string { return "nats://bridge:" + password + "@" + server.Addr() + "\n" }
	file := write(t, filepath.Join(t.TempDir(), "url"), url("first-secret"))
	d := world.NewDaemon(t, world.Binary(t, false), secured("secured.{type}").With(world.Env{"BRIDGE_SOURCE_URL": table.URL, "BRIDGE_SINK_URL_FILE": file}))
	d.Start()
	arrives(t, d, table)
	server.Reconfigure(t, "first-secret", "another-secret")
	insertSecured(table)
	refused(t, d, "Authorization Violation")
	write(t, file, url("another-secret"))
	arrives(t, d, table)
}

func TestMariaDBThatWantsTLS(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	certs, later, dir := testenv.NewCerts(t), testenv.NewCerts(t), t.TempDir()
	copyTo := func(from, name string) string { return put(t, from, filepath.Join(dir, name)) }
	server := testenv.StartMariaDB(t, "--ssl-ca="+copyTo(certs.CA, "server-ca.pem"),
		"--ssl-cert="+copyTo(certs.ServerCert, "cert.pem"), "--ssl-key="+copyTo(certs.ServerKey, "key.pem"))
	table := newSecured(t, server)
	table.Exec("CREATE USER secure@'%' IDENTIFIED BY 'pa:ss@w' REQUIRE X509")
	table.Exec("GRANT SELECT ON " + table.Name + ".* TO secure@'%'")
	ca := copyTo(certs.CA, "ca.pem")
	url := func(password string) string {
		return server.URL("secure", password, table.Name) + "?tls=true&tls-ca=" + ca + "&tls-cert=" + certs.ClientCert + "&tls-key=" + certs.ClientKey + "\n"
	}
	file := write(t, filepath.Join(dir, "url"), url("pa:ss@w"))
	d := world.NewDaemon(t, world.Binary(t, false), secured("").With(world.Env{"BRIDGE_SINK_URL": "stdout:", "BRIDGE_SOURCE_URL_FILE": file}))
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
	refused(t, d, "unknown authority")
	copyTo(later.CA, "ca.pem")
	refused(t, d, "Access denied")
	write(t, file, url("another-secret"))
	arrives(t, d, table)
}
