package kafka

// Queued returns how many runs a lane holds, those in flight included.
func Queued(s *Sink, topic string, partition int32) int {
	s.mu.Lock()
	l := s.lanes[place(topic, partition)]
	s.mu.Unlock()
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}
