package testenv

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/tests/must"
)

// Certs are the PEM files of a private certificate authority, made on the spot.
type Certs struct {
	// CA signs everything below except OtherCA.
	CA string
	// ServerCert and ServerKey are for 127.0.0.1, ::1 and localhost.
	ServerCert, ServerKey string
	// ClientCert and ClientKey belong to a client with the common name "bridge".
	ClientCert, ClientKey string
	// ExpiredCert and ExpiredKey are a server's like ServerCert that ended an hour ago.
	ExpiredCert, ExpiredKey string
	// NamedCert and NamedKey are a server's for bridge.example, and so are OtherCertOfName and
	// OtherKeyOfName.
	NamedCert, NamedKey, OtherCertOfName, OtherKeyOfName string
	// OtherCA has signed none of them.
	OtherCA string
}

// NewCerts makes certificates in a folder of the test.
func NewCerts(t testing.TB) (c Certs) {
	t.Helper()
	dir := t.TempDir()
	var parent *x509.Certificate
	var parentKey *ecdsa.PrivateKey
	sign := func(cert *x509.Certificate, name string) (certFile, keyFile string) {
		key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		cert.SerialNumber = must.Get(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)))(t)
		cert.Subject.CommonName = name
		if cert.IsCA {
			parent, parentKey = cert, key
		}
		der := must.Get(x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), parentKey))(t)
		certFile, keyFile = filepath.Join(dir, name+"-cert.pem"), filepath.Join(dir, name+"-key.pem")
		writeFile(t, certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		writeFile(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(key))(t)}))
		return certFile, keyFile
	}
	authority := func(name string) string {
		file, _ := sign(&x509.Certificate{
			NotBefore: time.Now().Add(-72 * time.Hour), NotAfter: time.Now().Add(72 * time.Hour), KeyUsage: x509.KeyUsageCertSign, IsCA: true,
			BasicConstraintsValid: true, SubjectKeyId: []byte(name),
		}, name)
		return file
	}
	leaf := func(name string, usage x509.ExtKeyUsage, until time.Duration, hosts ...string) (certFile, keyFile string) {
		cert := &x509.Certificate{
			NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(until),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}, DNSNames: hosts,
		}
		if len(hosts) == 0 {
			cert.IPAddresses, cert.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, []string{"localhost"}
		}
		return sign(cert, name)
	}
	const day = 24 * time.Hour
	c.OtherCA = authority("other-ca")
	c.CA = authority("ca")
	c.ServerCert, c.ServerKey = leaf("server", x509.ExtKeyUsageServerAuth, day)
	c.ClientCert, c.ClientKey = leaf("bridge", x509.ExtKeyUsageClientAuth, day)
	c.ExpiredCert, c.ExpiredKey = leaf("expired", x509.ExtKeyUsageServerAuth, -time.Hour)
	c.NamedCert, c.NamedKey = leaf("named", x509.ExtKeyUsageServerAuth, day, "bridge.example")
	c.OtherCertOfName, c.OtherKeyOfName = leaf("other-of-name", x509.ExtKeyUsageServerAuth, day, "bridge.example")
	return c
}

// Build has the go command build a program, with flags before its package, and copy it to a path.
// The command keeps it in its cache: what has not changed since is not linked again.
func Build(to string, env []string, args ...string) error {
	// Another process copies: one that this process starts meanwhile would keep the copy open.
	build := exec.Command("go", slices.Concat([]string{"run", "-exec=cp"}, args, []string{to})...)
	build.Env = append(os.Environ(), env...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", to, err, out)
	}
	return nil
}

// ReadOnly makes a folder read-only for everybody, root too, but for folders in it, until end is
// called or the test ends. Files that are open stay so. That takes root: others get what a server
// gets that cannot be had.
func ReadOnly(t testing.TB, dir string, writable ...string) (end func()) {
	t.Helper()
	var bound []string
	end = func() {
		for _, at := range slices.Backward(bound) {
			if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
				t.Errorf("unmount %s: %v", at, err)
			}
		}
		bound = nil
	}
	t.Cleanup(end)
	mount := func(at string, flags uintptr) {
		if err := syscall.Mount(at, at, "", flags, ""); err != nil {
			missing(t, "read-only folder", fmt.Errorf("mount %s, as root may: %w", at, err))
		}
	}
	bind := func(at string) {
		mount(at, syscall.MS_BIND)
		bound = append(bound, at)
	}
	bind(dir)
	for _, folder := range writable {
		bind(filepath.Join(dir, folder))
	}
	mount(dir, syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV)
	return end
}

// Foreign is a program that is not ours, and how it is run.
type Foreign struct {
	Name string
	Args []string
	// Dir is where it runs, Env is added to its environment, Input is its standard input.
	Dir   string
	Env   []string
	Input []byte
	// Missing is why it cannot be run, nil where it can.
	Missing error
}

// Fetched is a program of a folder of the cache, which scripts/test-deps fetches.
func Fetched(name, folder, program string, args ...string) Foreign {
	_, err := os.Stat(Cached(folder, "done"))
	return Foreign{Name: name, Missing: err, Args: append([]string{Cached(folder, program)}, args...)}
}

// Node is a script of the repository for Node.js, with the packages of a folder, whose path is its
// first argument.
func Node(name, packages, script string, args ...string) Foreign {
	f := Fetched(name, packages, "node_modules", args...)
	node, err := exec.LookPath("node")
	if f.Args = append([]string{node, filepath.Join(Root(), script)}, f.Args...); f.Missing == nil {
		f.Missing = err
	}
	return f
}

// Python is a script of the repository with the packages of a folder.
func Python(name, packages, script string, args ...string) Foreign {
	return Fetched(name, packages, "bin/python3", append([]string{filepath.Join(Root(), script)}, args...)...)
}

// Promtool is promtool in a folder.
func Promtool(dir string, args ...string) Foreign {
	f := Fetched("Prometheus", "prometheus", "usr/bin/promtool", args...)
	f.Dir = dir
	return f
}

// Try runs the program to its end, for five minutes at most, and returns what it printed to stdout,
// or else all in the error.
func (f Foreign) Try(t testing.TB) ([]byte, error) {
	t.Helper()
	if f.Missing != nil {
		missing(t, f.Name, f.Missing)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, f.Args[0], f.Args[1:]...)
	run.Dir, run.Env, run.Stdin = f.Dir, append(os.Environ(), f.Env...), bytes.NewReader(f.Input)
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", f.Name, err, stdout.Bytes(), stderr.Bytes())
	}
	report("real", f.Name)
	return stdout.Bytes(), nil
}

// Run is Try for a program that has to succeed.
func (f Foreign) Run(t testing.TB) []byte {
	t.Helper()
	return must.Get(f.Try(t))(t)
}

// JSONLines reads what a program prints, one value a line.
func JSONLines[V any](t testing.TB, f Foreign) (values []V) {
	t.Helper()
	for line := range strings.Lines(string(f.Run(t))) {
		var v V
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s says %q: %v", f.Name, line, err)
		}
		values = append(values, v)
	}
	return values
}

// Tool returns the path of a program that scripts/test-deps does not fetch.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		report("SKIPPED", t.Name()+": no "+name)
		t.Skipf("no %s here", name)
	}
	report("real", name)
	return path
}
