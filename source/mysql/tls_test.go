package mysql_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/source/mysql"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// A MySQL makes a certificate for itself: signed by an authority in its data folder, and for no
// host.
func TestTheCertificateThatMySQLMakes(t *testing.T) {
	server := testenv.MySQL(t)
	b := newBase(t, server)
	ca := filepath.Join(b.query(t, "SELECT @@datadir"), "ca.pem")
	b.exec(t, "CREATE USER secure@'%' IDENTIFIED BY 'p' REQUIRE SSL; CREATE USER known@'%' IDENTIFIED BY 'p' REQUIRE X509; CREATE USER plain@'%' IDENTIFIED BY 'p'")
	t.Cleanup(func() {
		if _, err := b.admin.Exec("SET GLOBAL require_secure_transport = 0; DROP USER secure@'%', known@'%', plain@'%'"); err != nil {
			t.Error(err)
		}
	})
	url := func(user, parameters string) string { return server.URL(user, "p", b.name) + parameters }
	t.Run("verify-ca takes it from its authority", func(t *testing.T) {
		got, err := open(t, url("secure", "?tls=verify-ca&tls-ca="+ca)).Query(t.Context(), "SHOW SESSION STATUS LIKE 'Ssl_cipher'", "Value")
		if err != nil || got[0] == "" {
			t.Errorf("cipher %q, %v", got, err)
		}
	})
	other := testenv.NewCerts(t).OtherCA
	for _, c := range []struct {
		name, url string
		code      inspect.Code
		words     string
	}{
		{"verify-ca refuses another authority", url("secure", "?tls=verify-ca&tls-ca="+other), inspect.SourceTLS, "unknown authority,with tls-ca"},
		{"tls=true refuses a certificate for no host", url("secure", "?tls=true&tls-ca="+ca), inspect.SourceTLS, "tls=verify-ca"},
		{"tls=true without the authority", url("secure", "?tls=true"), inspect.SourceTLS, "verify-ca&tls-ca=FILE"},
		{"a login that requires TLS", url("secure", ""), inspect.SourceLogin, "Access denied,user or password,REQUIRE SSL,?tls=true"},
		{"a login that requires a certificate", url("known", "?tls=skip-verify"), inspect.SourceLogin, "Access denied,user or password,REQUIRE X509,tls-cert"},
	} {
		t.Run(c.name, func(t *testing.T) { mustRefuse(t, c.url, c.code, c.words) })
	}
	t.Run("a server that takes no login without TLS", func(t *testing.T) {
		b.exec(t, "SET GLOBAL require_secure_transport = 1")
		mustRefuse(t, url("plain", ""), inspect.SourceTLS, "3159,?tls=true,tls=verify-ca")
	})
}

func TestTLSWithoutAServerThatHasIt(t *testing.T) {
	server := testenv.MariaDB(t)
	for _, mode := range []string{"true", "skip-verify", "verify-ca&tls-ca=" + testenv.NewCerts(t).CA} {
		t.Run(mode[:4], func(t *testing.T) {
			mustRefuse(t, server.URL("", "", "")+"?tls="+mode, inspect.SourceTLS, "offers no TLS,?tls=")
		})
	}
	if got, err := open(t, server.URL("", "", "")+"?tls=preferred").Query(t.Context(), "SHOW SESSION STATUS LIKE 'Ssl_cipher'", "Value"); err != nil || got[0] != "" {
		t.Errorf("TLS preferred: cipher %q, %v", got, err)
	}
}

// mustRefuse fails the test unless check and run say the words about a source.
func mustRefuse(t *testing.T, url string, code inspect.Code, words string) {
	t.Helper()
	s := open(t, url)
	err := s.Ready(t.Context())
	if err == nil {
		t.Fatal("it is not refused")
	}
	found := s.Inspect(t.Context(), nil, 1).Server.Findings
	if len(found) != 1 || found[0].Code != code || found[0].Severity != inspect.Unsafe {
		t.Fatalf("found %v", found)
	}
	for _, word := range strings.Split(words, ",") {
		if !strings.Contains(err.Error(), word) || !strings.Contains(found[0].String(), word) {
			t.Errorf("%q is not in\n%v\n%s", word, err, found[0])
		}
	}
	if code == inspect.SourceTLS && strings.Contains(found[0].String(), "firewall") {
		t.Errorf("blames the network: %s", found[0])
	}
}

func TestParseURL(t *testing.T) {
	t.Run("all pieces", func(t *testing.T) {
		o := must.Get(mysql.ParseURL("mysql://us%40er:p%2F%23%3Fw@[::1]:3307/my%20db?tls=true"))(t)
		_, password, err := o.Password()
		if err != nil || o.Host != "::1" || o.Port != 3307 || o.User != "us@er" || password != "p/#?w" || o.Database != "my db" ||
			!encrypts(o) || blind(o) || o.TLSOptional {
			t.Fatalf("%+v, password %q, %v", o, password, err)
		}
	})
	t.Run("the least", func(t *testing.T) {
		o, err := mysql.ParseURL("mysql://u@h")
		if err != nil || o.Host != "h" || o.Port != 0 || o.Password != nil || o.Database != "" || o.TLS != nil {
			t.Fatalf("%+v, %v", o, err)
		}
	})
	t.Run("ways of TLS", func(t *testing.T) {
		for mode, want := range map[string][3]bool{
			"false": {false, false, false}, "true": {true, false, false}, "skip-verify": {true, true, false}, "preferred": {true, true, true},
		} {
			o := must.Get(mysql.ParseURL("mysql://u:p@h/d?tls=" + mode))(t)
			got := [3]bool{encrypts(o), blind(o), o.TLSOptional}
			if got != want {
				t.Errorf("tls=%s: %v, want %v", mode, got, want)
			}
		}
	})
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must.OK(t, os.WriteFile(empty, nil, 0o600))
	for url, want := range map[string]string{
		"":                                     "must look like mysql://",
		"h:3306":                               "must look like mysql://",
		"mysql://h/d":                          "must look like mysql://",
		"mysql://u:S3@/d":                      "must look like mysql://",
		"mysql://u:S3%zz@h/d":                  "percent-encoded",
		"mysql://u:S3#x@h/d":                   "percent-encoded",
		"mysql://u:S3@h:x/d":                   "must look like mysql://",
		"mysql://u:S3@h:70000/d":               "1 to 65535",
		"mysql://u:S3@h:0/d":                   "1 to 65535",
		"mysql://u:S3@h/d/e":                   "one database",
		"mysql://u:S3@h/d?tls=maybe":           "true, verify-ca, false, skip-verify or preferred",
		"mysql://u:S3@h/d?tls=verify-ca":       "needs tls-ca",
		"mysql://u:S3@h/d?S3=1":                "unknown parameter",
		"mysql://u:S3@h/d?tls=%zz":             "malformed parameters",
		"mysql://u:S3@h/d?tls=false&tls-ca=x":  "contradicts",
		"mysql://u:S3@h/d?tls-ca=/none/ca.pem": "tls-ca: open /none/ca.pem",
		"mysql://u:S3@h/d?tls-ca=" + empty:     "no certificate in",
		"mysql://u:S3@h/d?tls-cert=x":          "together",
		"mysql://u:S3@h/d?tls-cert=/none/c&tls-key=/none/k": "tls-cert and tls-key: open /none/c",
	} {
		t.Run("refuses "+url, func(t *testing.T) {
			_, err := mysql.ParseURL(url)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "S3") {
				t.Fatalf("error %v, want one with %q", err, want)
			}
		})
	}
}

func TestOptionsShowNoPassword(t *testing.T) {
	o, err := mysql.ParseURL("mysql://u:S3cret@h/d")
	if err != nil || strings.Contains(fmt.Sprintf("%v %+v %#v", o, o, o), "S3cret") {
		t.Fatalf("%#v, %v", o, err)
	}
}

func encrypts(o mysql.Options) bool { return o.TLS != nil }

func blind(o mysql.Options) bool {
	if o.TLS == nil {
		return false
	}
	c, err := o.TLS()
	return err == nil && c.InsecureSkipVerify
}
