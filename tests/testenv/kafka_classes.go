package testenv

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// shareClasses has the JVM take the classes of a broker from an archive beside the jars: a start
// then takes a third less of a processor, and half as long. A broker that is alone makes the
// archive where there is none, by a run of its own, unless another process is at it.
func (p *Process) shareClasses(libs string, alone bool) error {
	archive := filepath.Join(libs, "classes.jsa")
	if !isFile(archive) && alone {
		lock, err := os.Create(archive + ".lock")
		if err != nil {
			return err // the formatted storage, too, is kept there
		}
		defer lock.Close()
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && !isFile(archive) {
			run, made := *p, archive+".new"
			run.args = slices.Insert(slices.Clone(p.args), 1, "-XX:ArchiveClassesAtExit="+made)
			if err := run.start(); err != nil {
				return err
			}
			run.Stop()
			_ = os.Rename(made, archive) // without one the starts take longer
		}
	}
	if isFile(archive) {
		// One that does not fit the JVM is left aside, with a line in the log.
		p.args = slices.Insert(p.args, 1, "-XX:SharedArchiveFile="+archive)
	}
	return nil
}
