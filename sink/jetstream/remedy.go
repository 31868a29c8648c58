package jetstream

import (
	"errors"
	"fmt"
	"strings"

	"bridge/internal/option"

	"github.com/nats-io/nats.go/jetstream"
)

// Error codes of JetStream that end when somebody increases a limit.
const (
	codeAccountFull     = 10002
	codeServersFull     = 10023
	codeMaxConsumers    = 10026
	codeMaxStreams      = 10027
	codeStorageFull     = 10047
	codeMaxBytesMissing = 10113
	codeMaxBytesTooHigh = 10122
)

// advised adds to a refusal of JetStream what to do about it, where that is known.
func advised(code int, err error) error {
	switch code {
	case codeStoreFailed:
		switch text := err.Error(); {
		case strings.Contains(text, "per subject"):
			return fmt.Errorf("%w: the stream refuses further messages of the subject (discard_new_per_subject): use a stream without that", err)
		case strings.Contains(text, "maximum"):
			return fmt.Errorf("%w: the stream is full and refuses what is new (discard new): increase its limits, purge it, or let it discard old", err)
		}
	case codeAccountFull, codeServersFull, codeStorageFull:
		return fmt.Errorf("%w: the storage of the account or of the servers is used up: increase its limit, or remove messages", err)
	case codeMaxConsumers:
		return fmt.Errorf("%w: bridge reads by consumers: increase max_consumers of the stream or of the account, or remove consumers", err)
	case codeMaxStreams:
		return fmt.Errorf("%w: increase the number of streams of the account, or remove streams", err)
	case codeMaxBytesMissing, codeMaxBytesTooHigh:
		return option.Errorf("%w: set %s to a number of bytes that the account allows", err, option.NATSStreamMaxBytes)
	}
	return err
}

// advisedAPI is advised for an error of the library.
func advisedAPI(err error) error {
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok {
		return advised(int(refused.ErrorCode), err)
	}
	return err
}
