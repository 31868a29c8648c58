package acceptance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

// TestImage builds the Dockerfile with buildah and runs what it makes. No registry is asked: the
// base image of the build is made here, of the folders of this machine that have a shell and Go.
// So the steps are those of the Dockerfile, and golang itself is not seen.
func TestImage(t *testing.T) {
	testall.Beside(t)
	if os.Getuid() != 0 {
		t.Skip("only root builds without further set-up")
	}
	b := &buildah{path: testenv.Tool(t, "buildah"), dir: t.TempDir()}
	b.base(t)
	args := []string{
		"build", "--quiet", "--isolation", "chroot", "--format", "docker", "--pull-never", "--layers=false", "-t", "localhost/bridge",
		"--volume", "/usr:/usr:ro", "--volume", goEnv(t, "GOROOT") + ":/goroot:ro",
		"--volume", goEnv(t, "GOMODCACHE") + ":/go/pkg/mod", "--volume", goEnv(t, "GOCACHE") + ":/root/.cache/go-build",
	}
	labels := map[string]string{"version": "v1.2.3", "revision": "5427c86f41e6", "created": "2026-11-25T09:08:57Z", "source": "somewhere"}
	for name, value := range labels {
		args = append(args, "--build-arg", strings.ToUpper(name)+"="+value)
	}
	b.run(t, append(args, testenv.Root())...)

	t.Run("has the labels of OCI, and starts as a user without rights", func(t *testing.T) {
		var image struct {
			Docker struct {
				Config struct {
					Labels                map[string]string
					User                  string
					Entrypoint, Cmd       []string
					Volumes, ExposedPorts map[string]struct{}
					HealthCheck           struct{ Test []string }
				} `json:"config"`
			}
		}
		check(t, json.Unmarshal([]byte(b.run(t, "inspect", "--type", "image", "localhost/bridge")), &image))
		c := image.Docker.Config
		labels["title"], labels["licenses"] = "bridge", "Apache-2.0"
		for name, value := range labels {
			if got := c.Labels["org.opencontainers.image."+name]; got != value {
				t.Errorf("%s is %q, want %q", name, got, value)
			}
		}
		if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/bridge"}) || !slices.Equal(c.Cmd, []string{"run"}) ||
			!slices.Equal(c.HealthCheck.Test, []string{"CMD", "/bridge", "health"}) || len(c.Volumes) != 1 || len(c.ExposedPorts) != 1 {
			t.Errorf("%+v", c)
		}
	})
	container := strings.TrimSpace(b.run(t, "from", "--pull-never", "localhost/bridge"))
	t.Run("runs with its version", func(t *testing.T) {
		got := versionOf(t, b.run(t, "run", "--isolation", "chroot", container, "/bridge", "version", "--json"))
		if got.Version != labels["version"] || got.Commit != labels["revision"] || got.Built != labels["created"] {
			t.Errorf("%+v", got)
		}
	})
	t.Run("publishes events as its user, who may write to two folders alone", func(t *testing.T) {
		if out := b.run(t, "run", "--isolation", "chroot", container, "/bridge", "demo", "--for", "1s"); !strings.Contains(out, "Event") {
			t.Errorf("printed %s", out)
		}
	})
}

// buildah runs the program with images of its own.
type buildah struct{ path, dir string }

func (b *buildah) run(t testing.TB, args ...string) string {
	t.Helper()
	return output(t, b.dir, b.path, append([]string{"--root", filepath.Join(b.dir, "root"), "--runroot", filepath.Join(b.dir, "run")}, args...)...)
}

// base makes the image golang:1.26: links to where this machine has its programs, which are mounted
// when it is used, and the certificate authorities.
func (b *buildah) base(t testing.TB) {
	t.Helper()
	dir := filepath.Join(b.dir, "base")
	for _, folder := range []string{"usr", "goroot", "go/pkg/mod", "root", "tmp", "etc/ssl/certs"} {
		check(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
	}
	for _, folder := range []string{"bin", "sbin", "lib", "lib64"} {
		if info, err := os.Lstat("/" + folder); err == nil && info.Mode()&os.ModeSymlink != 0 {
			check(t, os.Symlink("usr/"+folder, filepath.Join(dir, folder)))
		}
	}
	put(t, "/etc/ssl/certs/ca-certificates.crt", filepath.Join(dir, "etc/ssl/certs/ca-certificates.crt"))
	file := filepath.Join(b.dir, "Base")
	env := "PATH=/goroot/bin:/usr/bin GOPATH=/go HOME=/root GOPROXY=" + goEnv(t, "GOPROXY") + " GOSUMDB=" + goEnv(t, "GOSUMDB")
	check(t, os.WriteFile(file, []byte("FROM scratch\nCOPY . /\nENV "+env+"\n"), 0o600))
	b.run(t, "build", "--quiet", "--isolation", "chroot", "-f", file, "-t", "localhost/golang:1.26", dir)
}

func goEnv(t testing.TB, name string) string {
	t.Helper()
	return strings.TrimSpace(output(t, ".", "go", "env", name))
}
