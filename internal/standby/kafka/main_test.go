package kafka_test

import (
	"testing"

	"bridge/tests/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
