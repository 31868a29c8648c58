package embedded

import "os"

// SwitchOff switches JetStream off as the server does when the disk is full.
func (s *Sink) SwitchOff() error { return s.server.ShutdownJetStream() }

// Stores reports whether JetStream is on.
func (s *Sink) Stores() bool { return s.server.JetStreamEnabled() }

// Lock takes the lock of a folder, as bridge check does.
func Lock(dir string) (*os.File, error) { return prepare(dir) }
