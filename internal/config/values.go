package config

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// parsers replace those of the env package, whose errors quote the value.
var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[time.Duration](): parserOf[time.Duration], reflect.TypeFor[bool](): parserOf[bool],
	reflect.TypeFor[int](): parserOf[int], reflect.TypeFor[int64](): parserOf[int64],
}

func parserOf[T any](text string) (any, error) {
	var value T
	err := parse(reflect.ValueOf(&value).Elem(), text)
	return value, err
}

// parse sets a field to what text says. No error of a parser quotes the text: a password that was
// pasted into the wrong variable must not reach a log.
func parse(field reflect.Value, text string) error {
	switch to := field.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return to.UnmarshalText([]byte(text))
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("invalid duration: use a number with a unit, such as 200ms, 10s, 30m or 24h")
		}
		*to = d
	case *int, *int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("invalid number: use digits only, such as 2000")
		}
		field.SetInt(n)
	case *bool:
		b, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return errors.New("must be true or false")
		}
		*to = b
	default:
		field.SetString(text)
	}
	return nil
}

// list is a comma-separated list: items are trimmed, empty ones dropped.
type list []string

func (l *list) UnmarshalText(text []byte) error {
	*l = nil
	for item := range strings.SplitSeq(string(text), ",") {
		if item = strings.TrimSpace(item); item != "" {
			*l = append(*l, item)
		}
	}
	if len(*l) == 0 {
		return errors.New("is a list without an item: write them with commas, or unset it")
	}
	return nil
}

// Percent is a share between 0 and 1.
type Percent float64

func (p *Percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	// Not within, rather than outside: NaN is neither.
	if !ok || err != nil || !(f >= 0 && f <= 100) {
		return errors.New("invalid percentage: use a number from 0 to 100 with the sign, as in 10%")
	}
	*p = Percent(f / 100)
	return nil
}

// Zone is a time zone.
type Zone struct{ Location *time.Location }

func (z *Zone) UnmarshalText(text []byte) error {
	name := string(text)
	location, err := time.LoadLocation(name)
	// The host's zone would make other events on another host.
	if err != nil || name == "Local" {
		return errors.New("invalid time zone: use its name in the IANA database, as in UTC or Asia/Shanghai")
	}
	z.Location = location
	return nil
}

// Start says where a shard without a checkpoint begins.
type Start struct {
	// Latest takes the table as it stands for published.
	Latest bool
	// After is the id below the first one to publish, when latest is false; 0 is the beginning.
	After uint64
}

func (s *Start) UnmarshalText(text []byte) error {
	switch strings.ToLower(string(text)) {
	case "beginning":
		*s = Start{}
		return nil
	case "latest":
		*s = Start{Latest: true}
		return nil
	}
	id, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("invalid start: use beginning, latest, or an id from 0 to %d", uint64(math.MaxUint64))
	}
	*s = Start{After: id}
	return nil
}

// StreamLogger returns logger for the lines of one stream: their errors name settings by the
// stream's variables.
func StreamLogger(logger *slog.Logger, stream string) *slog.Logger {
	return slog.New(streamHandler{logger.Handler(), StreamText(stream)}).With("stream", stream)
}

type streamHandler struct {
	slog.Handler
	text func(error) string
}

func (h streamHandler) Handle(ctx context.Context, line slog.Record) error {
	named := slog.NewRecord(line.Time, line.Level, line.Message, line.PC)
	line.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(h.text(err))
		}
		named.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, named)
}

func (h streamHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

func (h streamHandler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
