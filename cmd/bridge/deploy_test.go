package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"bridge/internal/httpapi/httpapitest"
)

// The files that run bridge in containers are held against the configuration, because no test
// starts an engine.

// top is the top of the repository.
const top = "../../"

// tree is a YAML document; get and list return an empty one where there is nothing.
type tree map[string]any

func (t tree) get(keys ...string) tree {
	for _, key := range keys {
		t, _ = t[key].(tree)
	}
	return t
}

func (t tree) list(key string) (all []tree) {
	items, _ := t[key].([]any)
	for _, item := range items {
		one, _ := item.(tree)
		all = append(all, one)
	}
	return all
}

func (t tree) text(key string) string {
	text, _ := t[key].(string)
	return text
}

// documents parses a YAML file.
func documents(t *testing.T, file string) []tree {
	t.Helper()
	text, err := os.ReadFile(top + file)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

// imageEnv returns what the Dockerfile sets.
func imageEnv(t *testing.T) settingsOf {
	t.Helper()
	text, err := os.ReadFile(top + "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	env := settingsOf{}
	for _, word := range strings.Fields(string(text)) {
		if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(name, "BRIDGE_") {
			env[name] = value
		}
	}
	if len(env) == 0 {
		t.Fatal("the Dockerfile sets no variable")
	}
	return env
}

// mustRun fails the test unless env is a configuration without fault or warning, with the
// checkpoint below a volume.
func mustRun(t *testing.T, env settingsOf, volume string) {
	t.Helper()
	cfg := load(t, env)
	if len(cfg.Warnings) > 0 {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
	if path.Dir(cfg.CheckpointPath) != volume {
		t.Errorf("the checkpoint %s is not in the volume %s", cfg.CheckpointPath, volume)
	}
}

// mustBeAnywhere fails the test unless an image is named without the host of a registry.
func mustBeAnywhere(t *testing.T, image string) {
	t.Helper()
	if first, _, ok := strings.Cut(image, "/"); image == "" || ok && strings.ContainsAny(first, ".:") {
		t.Errorf("image %q", image)
	}
}

func TestComposeFile(t *testing.T) {
	services := documents(t, "compose.yaml")[0].get("services")
	bridges := 0
	for name, service := range services {
		service, _ := service.(tree)
		mustBeAnywhere(t, service.text("image"))
		if service["build"] == nil {
			continue
		}
		bridges++
		t.Run(name+" has a configuration without fault", func(t *testing.T) {
			env := imageEnv(t)
			for name, value := range service.get("environment") {
				text, ok := value.(string)
				if !ok {
					t.Errorf("%s is not text", name)
				}
				env[name] = text
			}
			volumes, _ := service["volumes"].([]any)
			_, volume, _ := strings.Cut(volumes[0].(string), ":")
			mustRun(t, env, volume)
			for _, host := range append(load(t, env).Sink.Kafka.Brokers, load(t, env).Sink.NATS.Servers...) {
				if host, _, _ := strings.Cut(host, ":"); services[host] == nil {
					t.Errorf("no service %s", host)
				}
			}
			for needed := range service.get("depends_on") {
				if services[needed] == nil {
					t.Errorf("waits for %s, which is not there", needed)
				}
			}
		})
	}
	if bridges != 2 {
		t.Errorf("%d bridges", bridges)
	}
}

func TestKubernetesManifest(t *testing.T) {
	t.Run("alone", func(t *testing.T) { mustBeManifest(t, "deploy/kubernetes.yaml", "StatefulSet", 1) })
	t.Run("with a standby", func(t *testing.T) { mustBeManifest(t, "deploy/kubernetes-standby.yaml", "Deployment", 2) })
}

// mustBeManifest fails the test unless a file runs so many bridges, a standby group where there are
// several.
func mustBeManifest(t *testing.T, file, kind string, replicas int) {
	t.Helper()
	secrets, set := settingsOf{}, tree(nil)
	for _, one := range documents(t, file) {
		switch one.text("kind") {
		case "Secret":
			for name, value := range one.get("stringData") {
				secrets[name], _ = value.(string)
			}
		case kind:
			set = one.get("spec")
		}
	}
	pod := set.get("template", "spec")
	var bridge tree
	for _, container := range pod.list("containers") {
		mustBeAnywhere(t, container.text("image"))
		if container.text("name") == "bridge" {
			bridge = container
		}
	}
	mounts := map[string]string{}
	for _, mount := range bridge.list("volumeMounts") {
		mounts[mount.text("name")] = mount.text("mountPath")
	}

	t.Run("has a configuration without fault, with its secrets as files", func(t *testing.T) {
		dir := t.TempDir()
		for name, value := range secrets {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		env := imageEnv(t)
		for _, variable := range bridge.list("env") {
			name, value := variable.text("name"), variable.text("value")
			if file, ok := strings.CutPrefix(value, mounts["secrets"]+"/"); ok {
				value = filepath.Join(dir, file)
			} else if file, ok := strings.CutPrefix(value, mounts["token"]+"/"); ok && mounts["token"] != "" {
				value = filepath.Join(dir, file)
			} else if strings.HasSuffix(name, "_FILE") {
				t.Errorf("%s is not in %s", name, mounts["secrets"])
			}
			env[name] = value
		}
		mustRun(t, env, mounts["checkpoint"])
		if group := env["BRIDGE_STANDBY"]; (group != "") != (replicas > 1) || group != "" && env["BRIDGE_HTTP_TOKEN_FILE"] == "" {
			t.Errorf("%d replicas, standby group %q, token %q", replicas, group, env["BRIDGE_HTTP_TOKEN_FILE"])
		}
		for name := range maps.Keys(env) {
			if strings.Contains(env[name], "secret") && !strings.HasSuffix(name, "_FILE") {
				t.Errorf("%s shows a secret", name)
			}
		}
	})
	t.Run("probes pages that there are, on the port of the image", func(t *testing.T) {
		ports := bridge.list("ports")
		if want := strings.TrimPrefix(imageEnv(t)["BRIDGE_HTTP_ADDR"], ":"); len(ports) != 1 || ports[0]["containerPort"] != atoi(want) {
			t.Errorf("ports %v, want %s", ports, want)
		}
		for probe, want := range map[string]string{"livenessProbe": "/livez", "readinessProbe": "/readyz"} {
			get := bridge.get(probe, "httpGet")
			status, _ := httpapitest.Request(t, &httpapitest.Daemon{}, http.MethodGet, get.text("path"))
			if get.text("path") != want || get.text("port") != ports[0].text("name") || status != http.StatusOK {
				t.Errorf("%s %v: %d", probe, get, status)
			}
		}
	})
	t.Run("runs its bridges without rights", func(t *testing.T) {
		security := bridge.get("securityContext")
		if set["replicas"] != replicas || security["readOnlyRootFilesystem"] != true || security["allowPrivilegeEscalation"] != false ||
			security["runAsNonRoot"] != true || security.get("seccompProfile").text("type") != "RuntimeDefault" || pod["automountServiceAccountToken"] != false ||
			fmt.Sprint(security.get("capabilities")) != "map[drop:[ALL]]" ||
			security["runAsUser"] != pod.get("securityContext")["fsGroup"] || pod.get("securityContext")["runAsNonRoot"] != true {
			t.Errorf("replicas %v, %v, %v", set["replicas"], security, pod.get("securityContext"))
		}
	})
	t.Run("lets only named peers reach the port", func(t *testing.T) {
		policies := 0
		for _, one := range documents(t, file) {
			if one.text("kind") != "NetworkPolicy" {
				continue
			}
			policies++
			spec := one.get("spec")
			// A policy holds for the whole pod: without a rule of its own nobody would reach the
			// application.
			rules := len(pod.list("containers"))
			if !reflect.DeepEqual(spec.get("podSelector"), set.get("selector")) || len(spec.list("ingress")) != rules ||
				len(spec.list("ingress")[0].list("from")) == 0 || spec.list("ingress")[0].list("ports")[0]["port"] != bridge.list("ports")[0]["containerPort"] {
				t.Errorf("%v", spec)
			}
		}
		if policies != 1 {
			t.Errorf("%d policies", policies)
		}
	})
}

func TestDockerfileRunsWhatThereIs(t *testing.T) {
	text, err := os.ReadFile(top + "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if _, list, ok := strings.Cut(line, "CMD ["); ok {
			words := strings.Split(strings.TrimRight(list, "]"), ", ")
			last := strings.Trim(words[len(words)-1], `"`)
			if got := (outcome{}).call(nil, "help", last); got.status != exitFine {
				t.Errorf("%s: %s", line, got.err)
			}
		}
	}
}

// atoi returns a number as a YAML document holds it.
func atoi(text string) (n int) {
	for _, digit := range text {
		n = n*10 + int(digit-'0')
	}
	return n
}
