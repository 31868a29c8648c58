package torture

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// diskFaults are done to the disk that the checkpoint lies on.
var diskFaults = []fault{
	{
		name: "disk-full", family: "disk and clock", what: "the checkpoint's disk is full for 30 s",
		prepare: func(tr *trial) {
			withFailpoints(tr)
			tr.Env["BRIDGE_CHECKPOINT_URL"] = "file:" + filepath.Join(testenv.SmallDisk(tr.T, 8<<20), "bridge.db")
		},
		inject: func(tr *trial) {
			empty := testenv.FillDisk(tr.T, tr.Checkpoint())
			tr.waits("no space left on device", 30*time.Second)
			empty()
		},
	},
	{
		name: "checkpoint-read-only", family: "disk and clock", what: "the checkpoint can be read and not be written for 30 s",
		prepare: func(tr *trial) {
			if err := immutableStops(tr.T.TempDir()); err != nil {
				tr.cannot("a folder cannot be made immutable", err)
			}
			withFailpoints(tr)
		},
		inject: func(tr *trial) {
			files := filepath.Join(tr.Checkpoint(), "db")
			tr.check(setImmutable(files, true))
			defer func() { tr.check(setImmutable(files, false)) }()
			tr.waits("operation not permitted", 30*time.Second)
		},
	},
	{
		name: "fsync-slow", family: "disk and clock", what: "each fsync of the checkpoint takes 1 s, for a minute",
		prepare: withFailpoints,
		inject: func(tr *trial) {
			tr.points.Set(failpoint.Action{Point: failpoint.StoreSync, Sleep: time.Second})
			tr.outage(time.Minute)
			tr.flows()
			tr.points.Set()
		},
	},
	{
		name: "fsync-fails", family: "disk and clock", what: "fsync fails five times, then for 30 s, then until bridge is killed and started", repeats: true,
		prepare: withFailpoints,
		inject: func(tr *trial) {
			tr.points.Set(failpoint.Action{Point: failpoint.StoreSync, Error: "input/output error", Times: 5})
			world.Eventually(tr.T, syncWithin, "the log tells", func() bool { return strings.Contains(tr.Log.String(), "input/output error") })
			tr.flows()
			tr.points.Set(failpoint.Action{Point: failpoint.StoreSync, Error: "the disk is gone"})
			tr.waits("the disk is gone", 30*time.Second)
			tr.points.Set()
			tr.flows()
			tr.points.Set(failpoint.Action{Point: failpoint.StoreSync, Error: "the disk is gone again"})
			tr.waits("the disk is gone again", 10*time.Second)
			tr.kill()
			tr.points.Set()
			tr.Start()
		},
	},
	{
		name: "fsync-in-doubt", family: "disk and clock", what: "fsync fails when the list of files is written: bridge ends, and is started again, three times", repeats: true,
		prepare: withFailpoints,
		inject: func(tr *trial) {
			for range tr.times(3) {
				said := len(tr.Log.String())
				tr.points.Set(failpoint.Action{Point: failpoint.ManifestSync, Error: "input/output error"})
				status := tr.endOf(tr.Daemon)
				tr.cuts++
				tr.says("after a failed fsync of the manifest", status, tr.Log.String()[said:], "check its disk, then restart bridge", "input/output error")
				tr.points.Set()
				tr.Start()
				tr.flows()
			}
		},
	},
}

// waits lets an outage of the checkpoint's disk pass, of which the program has to say why, and that
// it lives and is not ready.
func (tr *trial) waits(why string, d time.Duration) {
	tr.T.Helper()
	tr.unreadyFor(why, "checkpoint")
	tr.outage(d)
	if code, body := tr.Get("/livez"); code != 200 {
		tr.score.find("/livez is %d while the disk is away: %s", code, body)
	}
	if code, body := tr.Get("/readyz"); code != 503 {
		tr.score.find("/readyz is %d while the disk is away: %s", code, body)
	}
	// What comes back within 10 s of its end has no line of its own.
	if !strings.Contains(tr.Log.String(), "dependency=checkpoint") {
		tr.score.find("the log says nothing about the checkpoint: %s", why)
	}
}

// immutableStops returns nil when no file can be made in a folder that is made immutable.
func immutableStops(folder string) error {
	err := setImmutable(folder, true)
	if err == nil {
		if os.WriteFile(filepath.Join(folder, "probe"), nil, 0o600) == nil {
			err = errors.New("the file system lets files be made")
		}
		err = errors.Join(err, setImmutable(folder, false))
	}
	return err
}

// setImmutable switches the flag that keeps a folder as it is, as `chattr +i` does. It takes root,
// and a file system that knows it.
func setImmutable(path string, on bool) error {
	const (
		getFlags, setFlags = 0x80086601, 0x40086602 // FS_IOC_GETFLAGS, FS_IOC_SETFLAGS of linux/fs.h on 64 bits
		immutable          = 0x10
	)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var flags int
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), getFlags, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		return errno
	}
	if flags &^= immutable; on {
		flags |= immutable
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), setFlags, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		return errno
	}
	return nil
}
