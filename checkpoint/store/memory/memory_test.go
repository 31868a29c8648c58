package memory_test

import (
	"testing"

	"bridge/checkpoint/store/memory"
	"bridge/checkpoint/store/storetest"
)

func TestMemoryIsAStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Fixture { return storetest.Fixture{Store: memory.New()} })
}
