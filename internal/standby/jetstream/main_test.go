package jetstream_test

import (
	"testing"

	"example.org/bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
