package embedded

// SwitchOff switches JetStream off as the server does when the disk is full.
func (s *Sink) SwitchOff() error { return s.server.ShutdownJetStream() }
