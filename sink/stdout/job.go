package stdout

import (
	"bytes"
	"context"
	"sync"

	"example.org/bridge/sink"
)

// job is the text of one batch. It holds nothing of the batch itself.
type job struct {
	// ctx is that of Publish: a job that nobody waits for is not begun.
	ctx  context.Context
	text []byte
	// ends are the ends of the lines in text.
	ends []int
	done chan struct{}

	mu     sync.Mutex
	status []sink.Status
}

func newJob(ctx context.Context, batch []sink.Message) *job {
	size := 0
	for i := range batch {
		size += len(batch[i].Value) + 1
	}
	j := &job{ctx: ctx, text: make([]byte, 0, size), done: make(chan struct{}), status: make([]sink.Status, len(batch))}
	for i := range batch {
		begin := len(j.text)
		j.text = append(j.text, batch[i].Value...)
		unbreak(j.text[begin:])
		j.text = append(j.text, '\n')
		j.ends = append(j.ends, len(j.text))
	}
	return j
}

// unbreak makes one line of a JSON document: a raw line break can only be white space between its
// tokens.
func unbreak(line []byte) {
	for {
		i := bytes.IndexAny(line, "\n\r")
		if i < 0 {
			return
		}
		line[i] = ' '
		line = line[i+1:]
	}
}

// wrote notes that the first n bytes of the text were taken.
func (j *job) wrote(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, end := range j.ends {
		if end <= n {
			j.status[i] = sink.Acked
		}
	}
}

func (j *job) outcome() sink.Outcome {
	j.mu.Lock()
	defer j.mu.Unlock()
	return sink.Outcome{Status: append([]sink.Status{}, j.status...)}
}
