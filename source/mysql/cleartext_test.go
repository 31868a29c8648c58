package mysql_test

import (
	"strings"
	"testing"

	"bridge/internal/inspect"
	"bridge/tests/testenv"
)

// The PAM plugin of MariaDB asks for the password itself, as RDS IAM and LDAP do: it gets it over
// TLS alone. PAM knows nobody of that name here, and says so once it has the password.
func TestPasswordThatTheServerAsksFor(t *testing.T) {
	certs := testenv.NewCerts(t)
	server := testenv.StartMariaDB(t, "--ssl-ca="+certs.CA, "--ssl-cert="+certs.ServerCert, "--ssl-key="+certs.ServerKey,
		"--plugin-load-add=auth_pam_v1", "--pam-use-cleartext-plugin=ON")
	if _, err := server.Root(t).Exec("CREATE USER nobody_there@'%' IDENTIFIED VIA pam USING 'bridge_test'"); err != nil {
		t.Fatal(err)
	}
	url := server.URL("nobody_there", "s3cret", "")
	for _, parameters := range []string{"", "?tls=preferred"} {
		t.Run("not in plain text"+parameters, func(t *testing.T) {
			mustRefuse(t, url+parameters, inspect.SourceTLS, "mysql_clear_password,RDS IAM,?tls=true,verify-ca")
			if err := open(t, url+parameters).Ready(t.Context()); strings.Contains(err.Error(), "allowCleartextPasswords") {
				t.Error(err)
			}
		})
	}
	for _, parameters := range []string{"?tls-ca=" + certs.CA, "?tls=verify-ca&tls-ca=" + certs.CA, "?tls=skip-verify"} {
		t.Run("over TLS"+parameters[:7], func(t *testing.T) { mustRefuse(t, url+parameters, inspect.SourceLogin, "Access denied") })
	}
}
