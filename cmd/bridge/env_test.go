package main

import (
	"testing"

	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
)

// The environments of tests.
type settingsOf = configtest.Env

var minimal, with = configtest.Minimal, configtest.With

// load reads a configuration that must be right.
func load(t *testing.T, env settingsOf) *config.Config {
	t.Helper()
	cfg, err := config.Load(env.Environ(), &config.Redactor{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
