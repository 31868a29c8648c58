package acceptance

import (
	"testing"

	"bridge/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }
