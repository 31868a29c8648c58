package mysql_test

import (
	"path/filepath"
	"strings"
	"testing"

	"bridge/internal/inspect"
	"bridge/tests/testenv"
)

// A MySQL makes a certificate for itself: signed by an authority in its data folder, and for no
// host.
func TestTheCertificateThatMySQLMakes(t *testing.T) {
	server := testenv.StartMySQL(t)
	b := newBase(t, server)
	ca := filepath.Join(b.query(t, "SELECT @@datadir"), "ca.pem")
	b.exec(t, "CREATE USER secure@'%' IDENTIFIED BY 'p' REQUIRE SSL; CREATE USER known@'%' IDENTIFIED BY 'p' REQUIRE X509; CREATE USER plain@'%' IDENTIFIED BY 'p'")
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
		{"a login that requires TLS", url("secure", ""), inspect.SourceLogin, "Access denied,REQUIRE SSL,?tls=true"},
		{"a login that requires a certificate", url("known", "?tls=skip-verify"), inspect.SourceLogin, "Access denied,REQUIRE X509,tls-cert"},
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
