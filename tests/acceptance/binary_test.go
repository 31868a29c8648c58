package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

const imageUser = 65532

func staticBinary(t testing.TB, path string) {
	t.Helper()
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=image", "-o", path, "example.org/bridge/cmd/bridge")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// emptyRoot lays out what the image holds: the binary, one file of authorities, and two folders of
// the user's.
func emptyRoot(t testing.TB, authorities string) string {
	t.Helper()
	dir := t.TempDir()
	// The folders of the tests are closed to others.
	for parent := dir; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		must.OK(t, os.Chmod(parent, 0o755))
	}
	root := filepath.Join(dir, "root")
	for _, folder := range []string{"etc/ssl/certs", "var/lib/bridge", "tmp"} {
		must.OK(t, os.MkdirAll(filepath.Join(root, folder), 0o755))
	}
	for _, folder := range []string{"var/lib/bridge", "tmp"} {
		must.OK(t, os.Chown(filepath.Join(root, folder), imageUser, imageUser))
	}
	bundle := put(t, authorities, filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	must.OK(t, os.Chmod(bundle, 0o644))
	staticBinary(t, filepath.Join(root, "bridge"))
	return root
}

func TestTheStaticBinaryRunsInAnEmptyRoot(t *testing.T) {
	testall.Beside(t)
	if os.Getuid() != 0 {
		t.Skip("only root may change the root of a process")
	}
	certs := testenv.NewCerts(t)
	server := testenv.StartMariaDB(t, "--ssl-cert="+certs.ServerCert, "--ssl-key="+certs.ServerKey)
	table := newSecured(t, server)
	root := emptyRoot(t, certs.CA)

	// As the manifests and the compose file run it.
	testenv.ReadOnly(t, root, "var/lib/bridge", "tmp")

	port := testenv.FreePort(t)
	e := secured("").With(world.Env{
		// The certificate is judged by the authorities of the root.
		"BRIDGE_SOURCE_URL":     table.URL + "?tls=true",
		"BRIDGE_SINK_URL":       "stdout:",
		"BRIDGE_CHECKPOINT_URL": "file:///var/lib/bridge/bridge.db",
		"BRIDGE_HTTP_ADDR":      fmt.Sprintf(":%d", port),
		"BRIDGE_TIME_ZONE":      "Asia/Shanghai",
	})
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/bridge", args...)
		cmd.Path, cmd.Err, cmd.Dir = "/bridge", nil, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}, Pdeathsig: syscall.SIGKILL}
		for name, value := range e {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		return cmd
	}
	healthy := func(args ...string) (string, error) {
		out, err := command(append([]string{"health"}, args...)...).CombinedOutput()
		return string(out), err
	}

	if out, err := healthy(); err == nil || !strings.Contains(out, "refused") {
		t.Errorf("healthy before there is a bridge: %v, %s", err, out)
	}
	log := new(world.Log)
	bridge := command("run")
	bridge.Stdout, bridge.Stderr = log, log
	must.OK(t, bridge.Start())
	ended := make(chan error, 1)
	go func() { ended <- bridge.Wait() }()
	t.Cleanup(func() {
		_ = bridge.Process.Kill()
		if t.Failed() {
			t.Logf("log of bridge:\n%s", log)
		}
	})
	insertSecured(table)
	world.Eventually(t, time.Minute, "an event", func() bool { return strings.Contains(log.String(), `"SecuredPublishedEvent"`) })
	for _, flags := range [][]string{nil, {"--ready"}} {
		world.Eventually(t, time.Minute, fmt.Sprintf("bridge health %v", flags), func() bool {
			out, err := healthy(flags...)
			if err != nil {
				t.Logf("bridge health %v: %v, %s", flags, err, out)
			}
			return err == nil
		})
	}
	must.OK(t, bridge.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("not ended a minute after SIGTERM")
	}
	if _, err := os.Stat(filepath.Join(root, "var/lib/bridge/bridge.db")); err != nil {
		t.Error(err)
	}
}

// TestFigures measures what the README says about size, start and memory. It is part of `make
// figures`, not of the tests: what it measures depends on the machine.
func TestFigures(t *testing.T) {
	if os.Getenv("BRIDGE_TEST_FIGURES") == "" {
		t.Skip("part of `make figures`")
	}
	path := filepath.Join(t.TempDir(), "bridge")
	staticBinary(t, path)
	info, err := os.Stat(path)
	must.OK(t, err)
	table := newSecured(t, testenv.MariaDB(t))
	insertSecured(table)
	e := secured("").With(world.Env{"BRIDGE_SOURCE_URL": table.URL, "BRIDGE_SINK_URL": "stdout:", "BRIDGE_STABILITY_WINDOW": "1s"})
	world.Pause(2 * time.Second)

	var starts []time.Duration
	var idle int64
	for range 5 {
		d := world.NewDaemon(t, path, e)
		begun := time.Now()
		d.Start()
		// Nobody waits for a tick here: a start takes less than one.
		for !strings.Contains(d.Log.String(), "SecuredPublishedEvent") {
			if time.Since(begun) > 30*time.Second {
				t.Fatal("no event")
			}
			world.Pause(time.Millisecond)
		}
		starts = append(starts, time.Since(begun))
		if len(starts) == 5 {
			world.Pause(30 * time.Second)
			if idle, err = d.RSSAnon(); err != nil {
				t.Fatal(err)
			}
		}
		d.Kill()
	}
	slices.Sort(starts)
	fmt.Printf("static binary            %.1f MiB\n", float64(info.Size())/(1<<20))
	fmt.Printf("start to first event     %d ms (median of 5: process start, login, first page, event on stdout)\n", starts[2].Milliseconds())
	fmt.Printf("RssAnon, one idle stream %.1f MiB (after 30 s)\n", float64(idle)/(1<<20))
}
