package testenv_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"bridge/tests/testenv"
)

func TestSmallDisk(t *testing.T) {
	if os.Getenv("BRIDGE_TEST_REAL") == "" {
		t.Skip("mounts are part of `make test` (BRIDGE_TEST_REAL=1)")
	}
	dir := ""
	t.Run("is full when it is filled, and takes something when it is emptied", func(t *testing.T) {
		dir = testenv.SmallDisk(t, 2<<20)
		empty := testenv.FillDisk(t, dir)
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, []byte("x"), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a full disk says %v", err)
		}
		empty()
		if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(file, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("4 MiB on 2 MiB: %v", err)
		}
	})
	if dir == "" {
		t.Skip("there was no disk")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there after the test: %v", err)
	}
}
