package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallDisk returns an empty folder on a disk of its own with room for about so many bytes (a
// tmpfs, in whole pages of memory), gone when the test ends. To mount it takes root: others get
// what a server gets that cannot be had.
func SmallDisk(t testing.TB, bytes int64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	check(t, os.Mkdir(dir, 0o700))
	err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, fmt.Sprintf("size=%d,mode=700", bytes))
	if err != nil {
		missing(t, "small disk", fmt.Errorf("mount a tmpfs, as root may: %w", err))
	}
	t.Cleanup(func() {
		// A process that still holds a file there keeps the memory, not the folder.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// ReadOnly makes a folder read-only for everybody, root too, but for folders in it, until the test
// ends. That takes root: others get what a server gets that cannot be had.
func ReadOnly(t testing.TB, dir string, writable ...string) {
	t.Helper()
	mount := func(at string, flags uintptr) {
		if err := syscall.Mount(at, at, "", flags, ""); err != nil {
			missing(t, "read-only folder", fmt.Errorf("mount %s, as root may: %w", at, err))
		}
	}
	bind := func(at string) {
		mount(at, syscall.MS_BIND)
		t.Cleanup(func() {
			if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
				t.Errorf("unmount %s: %v", at, err)
			}
		})
	}
	bind(dir)
	for _, folder := range writable {
		bind(filepath.Join(dir, folder))
	}
	mount(dir, syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV)
}

// FillDisk writes a file to a folder of SmallDisk that takes all the room that is left, and returns
// what removes it. What others give back later is free again: call it once more.
func FillDisk(t testing.TB, dir string) (empty func()) {
	t.Helper()
	f, err := os.CreateTemp(dir, "filler-")
	check(t, err)
	defer f.Close()
	// Small steps to the end: a write that does not fit at all writes nothing.
	for _, step := range []int{1 << 20, 4096, 1} {
		for piece := make([]byte, step); err == nil; {
			_, err = f.Write(piece)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("fill %s: %v", dir, err)
		}
		err = nil
	}
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Error(err)
		}
	}
}
