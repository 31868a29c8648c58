package kafka_test

import (
	"testing"

	"bridge/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
