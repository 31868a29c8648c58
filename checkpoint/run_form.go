package checkpoint

import (
	"encoding/binary"
	"fmt"
	"time"
)

// runVersion is the version that AppendRun writes.
const runVersion = 1

// times and counts are the fields of a run in the order of its form.
func (r *Run) times() []*time.Time { return []*time.Time{&r.Started, &r.Ended, &r.Clock, &r.Verified} }

func (r *Run) counts() []*uint64 {
	return []*uint64{
		&r.Bound, &r.After, &r.Scanned, &r.Entities, &r.Added, &r.Modified, &r.Deleted, &r.Missed, &r.Absent, &r.Judged,
	}
}

// Check returns an error when r is no run, a time of it being outside the years 1 to 9999, or one
// of absent no entity.
func (r *Run) Check(absent [][]byte) error {
	for _, t := range r.times() {
		if !plausible(*t) {
			return fmt.Errorf("the time %v of a run is outside the years 1 to 9999", *t)
		}
	}
	for _, entity := range absent {
		c := Change{Entity: entity}
		if err := c.Check(); err != nil {
			return err
		}
	}
	return nil
}

// AppendRun appends the form in which stores keep r to dst and returns the extended dst. Times are
// kept to the microsecond, in UTC.
//
// The form is, in the terms of AppendState:
//
//	version    1 byte, 1
//	times      started i, ended i, clock i, verified i
//	counts     bound u, after u, scanned u, entities u, added u, modified u, deleted u, missed u, absent u, judged u
//	server     text
//	guard      text
//	allowed    1 byte
//	checksum   CRC-32C over all before, 4 bytes, little endian
func AppendRun(dst []byte, r Run) []byte {
	start := len(dst)
	dst = append(dst, runVersion)
	for _, t := range r.times() {
		dst = binary.AppendVarint(dst, t.UnixMicro())
	}
	for _, n := range r.counts() {
		dst = binary.AppendUvarint(dst, *n)
	}
	dst = appendText(appendText(dst, r.Server), r.Guard)
	allowed := byte(0)
	if r.Allowed {
		allowed = 1
	}
	return appendChecksum(append(dst, allowed), start)
}

// DecodeRun reads what AppendRun wrote. It keeps no reference to b. The error wraps ErrCorrupt, or
// ErrNewer when a newer version wrote b.
func DecodeRun(b []byte) (Run, error) {
	_, r, err := open("run", b, runVersion)
	if err != nil {
		return Run{}, err
	}
	var run Run
	for _, t := range run.times() {
		*t = r.time()
	}
	for _, n := range run.counts() {
		*n = r.uint()
	}
	run.Server, run.Guard, run.Allowed = r.text(), r.text(), r.flag()
	if err := r.close("run", b); err != nil {
		return Run{}, err
	}
	return run, nil
}
