package memory_test

import (
	"testing"

	"example.org/bridge/checkpoint/store/storetest"
	"example.org/bridge/checkpoint/store/storetest/memory"
)

func TestMemoryIsAStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Fixture { return storetest.Fixture{Store: memory.New()} })
}
