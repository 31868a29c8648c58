package mysql_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bridge/tests/testenv"
)

func TestTLS(t *testing.T) { eachProduct(t, testTLS) }

func testTLS(t *testing.T, product testenv.Product) {
	certs := testenv.NewCerts(t)
	server := product.Start(t, "--ssl-ca="+certs.CA, "--ssl-cert="+certs.ServerCert, "--ssl-key="+certs.ServerKey)
	// Newer servers make certificates of their own.
	plain := product.Start(t, product.WithoutTLS())
	admin := server.Root(t)
	for _, statement := range []string{
		"CREATE USER secure@'%' IDENTIFIED BY 'p' REQUIRE X509",
		"CREATE USER plain@'%' IDENTIFIED BY 'p'",
	} {
		if _, err := admin.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	client := "&tls-cert=" + certs.ClientCert + "&tls-key=" + certs.ClientKey
	for _, test := range []struct {
		name, url string
		// encrypted is false and refused empty where plain text is what was asked for.
		encrypted bool
		refused   string
	}{
		{"no TLS", server.URL("plain", "p", ""), false, ""},
		{"a trusted certificate", server.URL("plain", "p", "") + "?tls-ca=" + certs.CA, true, ""},
		{"a certificate of an unknown authority", server.URL("plain", "p", "") + "?tls=true", false, "certificate"},
		{"a certificate of another authority", server.URL("plain", "p", "") + "?tls-ca=" + certs.OtherCA, false, "certificate"},
		{"a certificate that nobody looks at", server.URL("plain", "p", "") + "?tls=skip-verify", true, ""},
		{"TLS preferred", server.URL("plain", "p", "") + "?tls=preferred", true, ""},
		{"a client without the certificate it needs", server.URL("secure", "p", "") + "?tls-ca=" + certs.CA, false, "Access denied"},
		{"a client with its certificate", server.URL("secure", "p", "") + "?tls-ca=" + certs.CA + client, true, ""},
		{"TLS preferred and none there", plain.URL("", "", "") + "?tls=preferred", false, ""},
		{"TLS asked for and none there", plain.URL("", "", "") + "?tls=skip-verify", false, "TLS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := open(t, test.url).Query(t.Context(), "SHOW SESSION STATUS LIKE 'Ssl_cipher'", "Value")
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Fatalf("error %v, want one with %q", err, test.refused)
				}
				return
			}
			if err != nil || len(got) != 1 || (got[0] != "") != test.encrypted {
				t.Fatalf("cipher %q, %v", got, err)
			}
		})
	}
}

func TestCertificatesAreReadAtEachConnect(t *testing.T) {
	eachProduct(t, testCertificatesAreReadAtEachConnect)
}

func testCertificatesAreReadAtEachConnect(t *testing.T, product testenv.Product) {
	certs := testenv.NewCerts(t)
	server := product.Start(t, "--ssl-ca="+certs.CA, "--ssl-cert="+certs.ServerCert, "--ssl-key="+certs.ServerKey)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	copyFile(t, certs.CA, ca)
	source := open(t, server.URL("", "", "")+"?tls-ca="+ca)
	// A connection that saw an error is not used again.
	reconnects := func() error {
		_, err := source.Query(t.Context(), "NO STATEMENT")
		if err == nil {
			t.Fatal("the server takes everything")
		}
		return source.Ready(t.Context())
	}
	if err := source.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	copyFile(t, certs.OtherCA, ca)
	if err := reconnects(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with another authority: %v", err)
	}
	if err := os.Remove(ca); err != nil {
		t.Fatal(err)
	}
	if err := reconnects(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	copyFile(t, certs.CA, ca)
	if err := reconnects(); err != nil {
		t.Errorf("with the right authority again: %v", err)
	}
}

// copyFile copies a file.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	pem, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, pem, 0o600); err != nil {
		t.Fatal(err)
	}
}
