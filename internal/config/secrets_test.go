package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/driver/mysql"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
)

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

func scram(pairs ...string) settingsOf {
	return with(append([]string{"BRIDGE_KAFKA_SASL_MECHANISM", "SCRAM-SHA-256", "BRIDGE_KAFKA_SASL_USERNAME", "u"}, pairs...)...)
}

// TestATokenIsReadAgain: the last one is kept out of logs, former ones are of no use any more. A
// reload in a standby group takes it.
func TestATokenIsReadAgain(t *testing.T) {
	path, secrets := secretFile(t, "first.token.x\n"), &Redactor{}
	env := with("BRIDGE_KAFKA_SASL_MECHANISM", "OAUTHBEARER", "BRIDGE_KAFKA_SASL_TOKEN_FILE", path, "BRIDGE_STANDBY", "shop")
	cfg := must.Get(Load(env.Environ(), secrets))(t)
	for _, token := range []string{"first.token.x", "second.token.x", "third.token.x"} {
		rewrite(t, path, token+"\n")
		if got, err := kafkaOf(cfg.Sink).SASL.Token(); err != nil || got != token {
			t.Fatalf("%q, %v", got, err)
		}
		if got := secrets.Clean("Bearer " + token); got != "Bearer "+redacted {
			t.Errorf("a log shows %q", got)
		}
	}
	must.Get(cfg.Reloaded(load(t, env)))(t)
	if n := len(secrets.secrets); n > 2 {
		t.Errorf("%d secrets are kept", n)
	}
}

// TestUnusedSecretsAreHidden from logs, as those in use are.
func TestUnusedSecretsAreHidden(t *testing.T) {
	file := secretFile(t, canary+"\n")
	for _, env := range []settingsOf{
		with("BRIDGE_SINK_URL", "nats://n", "BRIDGE_KAFKA_SASL_PASSWORD", canary),
		with("BRIDGE_SINK_URL", "nats://n", "BRIDGE_KAFKA_SASL_PASSWORD_FILE", file),
		with("BRIDGE_SINK_URL", "kafka://k", "BRIDGE_KAFKA_SASL_PASSWORD", canary),
		with("BRIDGE_HTTP_TOKEN", canary), with("BRIDGE_HTTP_TOKEN_FILE", file),
		with("BRIDGE_HTTP_TOKEN", canary, "BRIDGE_HTTP_TOKEN_FILE", "/dev/null"),
	} {
		secrets := &Redactor{}
		// What is wrong with these is not the point.
		_, _ = Load(env.Environ(), secrets)
		if got := secrets.Clean("a " + canary); got != "a "+redacted {
			t.Errorf("%v: a log shows %q", env, got)
		}
	}
}

func TestSecretFiles(t *testing.T) {
	t.Run("a password is read again at each call, without its line end", func(t *testing.T) {
		path := secretFile(t, " hunter2 \r\n")
		password := kafkaOf(load(t, scram("BRIDGE_KAFKA_SASL_PASSWORD_FILE", path)).Sink).SASL.Password
		if got, err := password(); err != nil || got != " hunter2 " {
			t.Fatalf("%q, %v", got, err)
		}
		rewrite(t, path, "hunter3\n")
		if got, err := password(); err != nil || got != "hunter3" {
			t.Fatalf("%q, %v", got, err)
		}
		must.OK(t, os.Remove(path))
		if _, err := password(); err == nil || !strings.Contains(err.Error(), "BRIDGE_KAFKA_SASL_PASSWORD_FILE") {
			t.Fatalf("error %v", err)
		}
	})

	t.Run("so is the password in the URL of the source", func(t *testing.T) {
		path := secretFile(t, "mysql://u:p%40ss@h/d\n")
		source := load(t, with("BRIDGE_SOURCE_URL", "-", "BRIDGE_SOURCE_URL_FILE", path)).Sources[0]
		options := &source.Opener.(*mysql.Opener).Options
		if _, got, err := options.Password(); err != nil || got != "p@ss" || options.Host != "h" || source.Addr != "h:3306" {
			t.Fatalf("%q, %v, %+v", got, err, source)
		}
		rewrite(t, path, "mysql://v:other@h/d")
		if user, got, err := options.Password(); err != nil || user != "v" || got != "other" {
			t.Fatalf("%q, %v", got, err)
		}
		rewrite(t, path, "mysql://u:hunter2#@h/d")
		if _, _, err := options.Password(); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Fatalf("error %v", err)
		}
	})

	t.Run("and the login in the URL of NATS, which shows nowhere", func(t *testing.T) {
		path := secretFile(t, "nats://u:p%2Cq@n1,n2:4333\n")
		sink := load(t, with("BRIDGE_SINK_URL", "-", "BRIDGE_SINK_URL_FILE", path)).Sink
		if !slices.Equal(sink.Servers, []string{"n1:4222", "n2:4333"}) {
			t.Errorf("people see %q", sink.Servers)
		}
		nats := natsOf(sink)
		if user, password, err := nats.Password(); err != nil || user != "u" || password != "p,q" || strings.Join(nats.URLs, " ") != "nats://n1:4222 nats://n2:4333" {
			t.Fatalf("%q %q, %v, %v", user, password, err, nats.URLs)
		}
		rewrite(t, path, "nats://tok%2Fen@n1")
		if user, token, err := nats.Password(); err != nil || user != "" || token != "tok/en" {
			t.Fatalf("%q %q, %v", user, token, err)
		}
	})

	const seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
	t.Run("an nkey seed may stand in the variable, in the file it names or in the one of its twin", func(t *testing.T) {
		path := secretFile(t, seed+"\n")
		for _, env := range []settingsOf{
			with("BRIDGE_SINK_URL", "nats://n1", "BRIDGE_NATS_NKEY", seed),
			with("BRIDGE_SINK_URL", "nats://n1", "BRIDGE_NATS_NKEY", path),
			with("BRIDGE_SINK_URL", "nats://n1", "BRIDGE_NATS_NKEY_FILE", path),
		} {
			if got, err := natsOf(load(t, env).Sink).NkeySeed(); err != nil || got != seed {
				t.Errorf("%q, %v", got, err)
			}
		}
	})
}

// canary is a secret that somebody wrote into a variable, alone or where a password belongs.
const canary = "Zq7canary"

func TestNoValueReachesAFault(t *testing.T) {
	shapes := []string{
		canary, canary + ":", ":" + canary, canary + "://", "mysql://u:" + canary + "#@h/d", "mysql://u:" + canary + "/x@h/d", "mysql://u:1/" + canary + "@h/d",
		"mysql://u:%zz" + canary + "@h/d", "mysql://u:1?" + canary + "=" + canary + "@h/d", "mysql://u:1@h:" + canary, "kafka://u:" + canary + "@h", "kafka://h:" + canary,
		"nats://u:" + canary + "#@h", "nats://u:" + canary + "@h,u:x@h", "nats://" + canary + " @h", "file://" + canary, "mysql:" + canary, "sqlite:" + canary, "stdout:" + canary,
		"{" + canary + "}", "t_{" + canary + "..3}", "t_{0.." + canary + "}", "a." + canary + ".b.{type}", canary + " *", "\"" + canary + "\" \x00", canary + "," + canary + "," + canary,
		"added:" + canary + " x", canary + ":" + canary + "," + canary + ":x", "/not/" + canary, canary + "{", "}" + canary, canary + "\xff",
	}
	var all []string
	for _, v := range allVariables("a", "orders") {
		all = append(all, v.Name)
	}
	all = append(all, "BRIDGE_UNKNOWN", "BRIDGE_STREAM_OTHER_TABLE")
	// make test tries every eighth pair of shape and variable.
	every := testall.Cases(8, 1)
	for i, shape := range shapes {
		for j, name := range all {
			if (i+j)%every != 0 {
				continue
			}
			sinks := []string{"kafka://k"}
			if strings.Contains(name, "NATS") || strings.HasSuffix(name, "DESTINATION") || strings.HasSuffix(name, "DEAD_LETTER") {
				sinks = []string{"kafka://k", "nats://n", "stdout:"}
			}
			for _, sink := range sinks {
				_, err := Load(with("BRIDGE_SINK_URL", sink, name, shape).Environ(), &Redactor{})
				if err != nil && strings.Contains(err.Error(), canary) {
					t.Errorf("%s=%q: %v", name, shape, err)
				}
			}
		}
	}
}

func TestWithFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.env")
	write := func(text string) {
		t.Helper()
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("\ufeff# comment\r\n\n  BRIDGE_A=1 # 2\r\nBRIDGE_B='a\\b \"c\" '\nBRIDGE_C=\"it's\"\nBRIDGE_D=\nBRIDGE_E= a=b'c \nBRIDGE_A=last # 2\nAWS_PROFILE=x\nBRIDGE_F=of the file\nBRIDGE_G=file\nBRIDG_RATE=5\nBRIDE_RATE=5\nbridg_rate=5\nBRIDGET=5\n")
	want := []string{"AWS_PROFILE=x", "BRIDE_RATE=5", "BRIDGET=5", "BRIDGE_A=last # 2", "BRIDGE_B=a\\b \"c\" ", "BRIDGE_C=it's", "BRIDGE_D=", "BRIDGE_E=a=b'c", "BRIDGE_G=file", "BRIDG_RATE=5", "bridg_rate=5", "BRIDGE_F=of the environment", "BRIDGE_G="}
	environ := []string{"BRIDGE_F=of the environment", "BRIDGE_G="}
	t.Run("reads lines as Docker and systemd do, and the environment wins", func(t *testing.T) {
		got, warnings, err := WithFile(environ, path)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v\nwant %q", got, err, want)
		}
		wantWarnings := []Warning{{"BRIDGE_A", "stands in lines 3 and 8 of " + path + ", of which the last one counts: remove the other"}}
		for _, name := range []string{"BRIDE_RATE", "BRIDG_RATE", "bridg_rate"} {
			wantWarnings = append(wantWarnings, Warning{name, "is not of bridge, whose names begin with BRIDGE_: correct it if it is to be"})
		}
		if !slices.Equal(warnings, wantWarnings) {
			t.Errorf("warns %q\nwant %q", warnings, wantWarnings)
		}
	})
	t.Run("finds the file by its variable, which the flag replaces", func(t *testing.T) {
		named := []string{"BRIDGE_ENV_FILE=" + path}
		if got, _, err := WithFile(named, ""); err != nil || len(got) != 13 {
			t.Errorf("got %q, %v", got, err)
		}
		if got, _, err := WithFile([]string{"BRIDGE_ENV_FILE=/missing"}, path); err != nil || len(got) != 13 {
			t.Errorf("got %q, %v", got, err)
		}
		if got, _, err := WithFile(environ, ""); err != nil || !slices.Equal(got, environ) {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("says of all lines what is wrong, without a value", func(t *testing.T) {
		write("hidden\nexport BRIDGE_A=hidden\n=hidden\nBRIDGE_B='hidden\nBRIDGE_C='hid'den'\nBRIDGE_D=hid\\den\nBRIDGE_E=\"hid\\den\"\nBRIDGE_F='\nBRIDGE_G=fine\nBRIDGE_ENV_FILE=hidden\n; hidden\n")
		_, _, err := WithFile(nil, path)
		if err == nil || strings.Contains(err.Error(), "hid") {
			t.Fatal(err)
		}
		for line, want := range map[string]string{
			":1": "write NAME=value", ":2": "write NAME=value", ":3": "write NAME=value", ":4": "has a quote", ":5": "has a quote",
			":6": "single quotes", ":7": "single quotes", ":8": "has a quote", ":10": "leave it out", ":11": "write NAME=value",
		} {
			if _, rest, found := strings.Cut(err.Error(), "\n  "+path+line+": "); !found || !strings.Contains(strings.SplitN(rest, "\n", 2)[0], want) {
				t.Errorf("line %s: want %q in\n%v", line, want, err)
			}
		}
	})
	t.Run("names what has named a file that is not there", func(t *testing.T) {
		for _, err := range []error{third(WithFile(nil, "/missing/file")), third(WithFile([]string{"BRIDGE_ENV_FILE=/missing/file"}, ""))} {
			if _, is := err.(*Error); !is || !strings.Contains(err.Error(), "names the file /missing/file, which cannot be read: no such file") {
				t.Error(err)
			}
		}
	})
	t.Run("judges variables of the file as those of the environment", func(t *testing.T) {
		write("BRIDGE_POL_INTERVAL=1s\n")
		environ, _, err := WithFile(with("BRIDGE_POLL_INTERVAL", "1s").Environ(), path)
		must.OK(t, err)
		if _, err := Load(environ, &Redactor{}); err == nil || !strings.Contains(err.Error(), "BRIDGE_POL_INTERVAL: is unknown: did you mean BRIDGE_POLL_INTERVAL?") {
			t.Error(err)
		}
	})
}

func third(_ []string, _ []Warning, err error) error { return err }

// TestShortSecrets are parts of words.
func TestShortSecrets(t *testing.T) {
	var r Redactor
	for _, secret := range []string{"a", "", "table"[:shortestSecret-1]} {
		r.add(secret)
	}
	if got := r.Clean("table"); got != "table" {
		t.Errorf("%q", got)
	}
}
