package acceptance

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
)

func output(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, args, err, out, errs.Bytes())
	}
	return string(out)
}

func contents(t testing.TB, path string) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return text
}

func only(t testing.TB, dir, suffix string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(files) != 1 {
		t.Fatalf("files that end with %s: %v, %v", suffix, files, err)
	}
	return files[0]
}

type version struct{ Version, Commit, Built, Platform string }

func versionOf(t testing.TB, out string) (v version) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return v
}

func TestRelease(t *testing.T) {
	testall.Beside(t)
	top := testenv.Root()
	testenv.Tool(t, "git")
	if exec.Command("git", "-C", top, "rev-parse", "HEAD").Run() != nil {
		t.Skip("not a clone of the repository: a release is of a commit")
	}
	dist := filepath.Join(t.TempDir(), "dist")
	output(t, top, "make", "release", "ARCHS=amd64", "DIST="+dist)

	want := version{
		Version: strings.TrimSpace(output(t, top, "scripts/version")), Commit: strings.TrimSpace(output(t, top, "git", "rev-parse", "HEAD")),
		Built: strings.TrimSpace(output(t, top, "bash", "-c", "TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ")), Platform: "linux/amd64",
	}
	t.Run("has the checksums of all its files", func(t *testing.T) { checksums(t, dist) })
	t.Run("has a list of the modules in the binary", func(t *testing.T) { billOfMaterials(t, dist) })
	t.Run("has a deb whose files run and are complete", func(t *testing.T) {
		root := t.TempDir()
		output(t, dist, testenv.Tool(t, "dpkg-deb"), "-x", only(t, dist, ".deb"), root)
		installed(t, root, want)
	})
	t.Run("keeps an edited configuration in an upgrade", func(t *testing.T) {
		if got := output(t, dist, testenv.Tool(t, "dpkg-deb"), "-I", only(t, dist, ".deb"), "conffiles"); got != "/etc/bridge/bridge.env\n" {
			t.Errorf("conffiles of the deb: %q", got)
		}
		if got := output(t, dist, testenv.Tool(t, "rpm"), "-qpc", only(t, dist, ".rpm")); got != "/etc/bridge/bridge.env\n" {
			t.Errorf("configuration files of the rpm: %q", got)
		}
	})
	t.Run("has a unit that systemd takes and that may do little", func(t *testing.T) {
		unit(t, filepath.Join(top, "deploy/package/bridge.service"), only(t, dist, "_amd64"))
	})
	t.Run("has an rpm with the files of the deb", func(t *testing.T) { sameFiles(t, dist) })
	t.Run("has an archive with binary, texts and unit", func(t *testing.T) {
		list := output(t, dist, "tar", "-tzf", only(t, dist, ".tar.gz"))
		for _, name := range []string{"bridge", "bridge.1", "bridge.bash", "_bridge", "bridge.fish", "bridge.service", "bridge.env", "config.example.env", "LICENSE", "CHANGELOG.md", "SECURITY.md"} {
			if !strings.Contains(list, "_linux_amd64/"+name+"\n") {
				t.Errorf("lacks %s: %s", name, list)
			}
		}
	})
}

func packaged(name string) string { return filepath.Join(testenv.Root(), "deploy/package", name) }

// TestThePackagedConfigurationStays: dpkg asks about a changed file that was edited, and stops
// where nobody answers.
func TestThePackagedConfigurationStays(t *testing.T) {
	sum := sha256.Sum256(contents(t, packaged("bridge.env")))
	if got := hex.EncodeToString(sum[:]); got != "133fa871a16e33cabace804707bea2f94d7f66cb3e906711bfa98608eca52d13" {
		t.Errorf("deploy/package/bridge.env has changed to %s: put new texts into config.example.env", got)
	}
	if !bytes.Contains(contents(t, packaged("bridge.env")), []byte("\nBRIDGE_CHECKPOINT_URL=file:///var/lib/bridge/bridge.db\n")) {
		t.Error("it does not say where the checkpoint is")
	}
}

// TestTheUnitStartsAgainAfterAPanic: Go ends a panic with the status of a wrong configuration.
func TestTheUnitStartsAgainAfterAPanic(t *testing.T) {
	unit := string(contents(t, packaged("bridge.service")))
	if strings.Contains(unit, "PreventExitStatus") || !strings.Contains(unit, "\nRestart=on-failure\n") {
		t.Error("the unit stays down after some failures")
	}
	if strings.Contains(unit, "Environment=BRIDGE_") {
		t.Error("the unit sets variables that commands beside it do not see")
	}
}

// TestTheUnitOfShares: it is the other one, but for what is of one share.
func TestTheUnitOfShares(t *testing.T) {
	only := func(name string) string {
		var kept []string
		for line := range strings.Lines(string(contents(t, packaged(name)))) {
			if !strings.Contains(line, "%i") && !strings.Contains(line, "bridge@") && !strings.HasPrefix(line, "Description=") &&
				!strings.HasPrefix(line, "StateDirectory=") && !strings.HasPrefix(line, "WorkingDirectory=") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
	if one, shares := only("bridge.service"), only("bridge@.service"); len(shares) < 500 || one != shares {
		t.Errorf("bridge@.service is\n%s\nand bridge.service\n%s", shares, one)
	}
}

func checksums(t *testing.T, dist string) {
	files := must.Get(filepath.Glob(filepath.Join(dist, "bridge_*")))(t)
	var want strings.Builder
	for _, file := range files {
		sum := sha256.Sum256(contents(t, file))
		fmt.Fprintf(&want, "%s  %s\n", hex.EncodeToString(sum[:]), filepath.Base(file))
	}
	if got := string(contents(t, filepath.Join(dist, "SHA256SUMS"))); got != want.String() || len(files) != 5 {
		t.Errorf("%d files, got\n%s\nwant\n%s", len(files), got, want.String())
	}
}

func billOfMaterials(t *testing.T, dist string) {
	var bom struct {
		BOMFormat  string
		Components []struct{ Name, Version string }
	}
	must.OK(t, json.Unmarshal(contents(t, only(t, dist, ".cdx.json")), &bom))
	info := must.Get(buildinfo.ReadFile(only(t, dist, "_amd64")))(t)
	listed := map[string]string{}
	for _, one := range bom.Components {
		listed[one.Name] = one.Version
	}
	for _, module := range info.Deps {
		if module.Replace == nil && listed[module.Path] != module.Version {
			t.Errorf("%s %s: lists %q", module.Path, module.Version, listed[module.Path])
		}
	}
	if std := listed["std"]; bom.BOMFormat != "CycloneDX" || len(info.Deps) < 20 || "go"+strings.TrimPrefix(std, "go") != info.GoVersion {
		t.Errorf("format %s, %d modules, std %s", bom.BOMFormat, len(info.Deps), std)
	}
}

// installed fails the test unless a root has all files of the package, and the binary works.
func installed(t *testing.T, root string, want version) {
	binary := filepath.Join(root, "usr/bin/bridge")
	if got := versionOf(t, output(t, root, binary, "version", "--json")); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	output(t, root, binary, "demo", "--for", "1s")
	env := filepath.Join(root, "etc/bridge/bridge.env")
	if info, err := os.Stat(env); err != nil || info.Mode().Perm() != 0o600 || !bytes.Equal(contents(t, env), contents(t, packaged("bridge.env"))) {
		t.Errorf("the configuration: %v, %v", info, err)
	}
	example := filepath.Join(root, "usr/share/doc/bridge/config.example.env")
	if !bytes.Equal(contents(t, example), contents(t, filepath.Join(testenv.Root(), "config.example.env"))) {
		t.Errorf("%s is another one", example)
	}
	for file, command := range map[string]string{
		"usr/share/bash-completion/completions/bridge": "completion bash", "usr/share/zsh/vendor-completions/_bridge": "completion zsh",
		"usr/share/fish/vendor_completions.d/bridge.fish": "completion fish", "usr/share/man/man1/bridge.1.gz": "man",
	} {
		got := contents(t, filepath.Join(root, file))
		if strings.HasSuffix(file, ".gz") {
			unpack, err := gzip.NewReader(bytes.NewReader(got))
			must.OK(t, err)
			if got, err = io.ReadAll(unpack); err != nil {
				t.Fatal(err)
			}
		}
		if string(got) != output(t, root, binary, strings.Fields(command)...) {
			t.Errorf("%s is not what bridge %s prints", file, command)
		}
	}
	for _, file := range []string{"usr/lib/systemd/system/bridge.service", "usr/lib/systemd/system/bridge@.service", "usr/share/doc/bridge/copyright"} {
		contents(t, filepath.Join(root, file))
	}
}

// unit checks the systemd unit with the binary where it is, and how much it may do.
func unit(t *testing.T, file, binary string) {
	analyze := testenv.Tool(t, "systemd-analyze")
	text := string(contents(t, file))
	here := filepath.Join(t.TempDir(), "bridge.service")
	must.OK(t, os.WriteFile(here, []byte(strings.Replace(text, "/usr/bin/bridge", binary, 1)), 0o600))
	if out, err := exec.Command(analyze, "verify", "--man=no", here).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
	// From 0, which may do nothing, to 10; in tenths.
	if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=15", here).CombinedOutput(); err != nil {
		t.Errorf("exposure: %v\n%s", err, out)
	}
}

// sameFiles compares what rpm and deb install, save for where zsh looks.
func sameFiles(t *testing.T, dist string) {
	inRPM := strings.Fields(output(t, dist, testenv.Tool(t, "rpm"), "-qpl", only(t, dist, ".rpm")))
	var inDeb []string
	for line := range strings.Lines(output(t, dist, testenv.Tool(t, "dpkg-deb"), "-c", only(t, dist, ".deb"))) {
		name := regexp.MustCompile(` \.(/\S+)\n`).FindStringSubmatch(line)[1]
		if !strings.HasSuffix(name, "/") || name == "/etc/bridge/" {
			inDeb = append(inDeb, strings.TrimSuffix(strings.Replace(name, "zsh/vendor-completions", "zsh/site-functions", 1), "/"))
		}
	}
	slices.Sort(inRPM)
	slices.Sort(inDeb)
	if !slices.Equal(inRPM, inDeb) {
		t.Errorf("rpm %v\ndeb %v", inRPM, inDeb)
	}
}

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
		must.OK(t, json.Unmarshal([]byte(b.run(t, "inspect", "--type", "image", "localhost/bridge")), &image))
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
		must.OK(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
	}
	for _, folder := range []string{"bin", "sbin", "lib", "lib64"} {
		if info, err := os.Lstat("/" + folder); err == nil && info.Mode()&os.ModeSymlink != 0 {
			must.OK(t, os.Symlink("usr/"+folder, filepath.Join(dir, folder)))
		}
	}
	put(t, "/etc/ssl/certs/ca-certificates.crt", filepath.Join(dir, "etc/ssl/certs/ca-certificates.crt"))
	file := filepath.Join(b.dir, "Base")
	env := "PATH=/goroot/bin:/usr/bin GOPATH=/go HOME=/root GOPROXY=" + goEnv(t, "GOPROXY") + " GOSUMDB=" + goEnv(t, "GOSUMDB")
	must.OK(t, os.WriteFile(file, []byte("FROM scratch\nCOPY . /\nENV "+env+"\n"), 0o600))
	b.run(t, "build", "--quiet", "--isolation", "chroot", "-f", file, "-t", "localhost/golang:1.26", dir)
}

func goEnv(t testing.TB, name string) string {
	t.Helper()
	return strings.TrimSpace(output(t, ".", "go", "env", name))
}
