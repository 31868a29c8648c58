package shard

import (
	"errors"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/internal/catchup"
	"bridge/sink"
	"bridge/source"
)

// Cause is why a shard is stopped: the same word for errors with the same remedy.
type Cause string

// The causes of a stop.
const (
	CauseMissing         Cause = "missing"
	CauseDenied          Cause = "denied"
	CauseUnfit           Cause = "unfit"
	CauseIDsReused       Cause = "idsReused"
	CauseConfiguration   Cause = "configuration"
	CauseSchema          Cause = "schema"
	CauseBusLost         Cause = "busLost"
	CauseBusUnreadable   Cause = "busUnreadable"
	CauseSuperseded      Cause = "superseded"
	CauseRefused         Cause = "refused"
	CauseDeadLetterLimit Cause = "deadLetterLimit"
	CauseBadValue        Cause = "badValue"
	CauseCheckpoint      Cause = "checkpoint"
	CauseOther           Cause = "other"
)

// Causes returns all causes.
func Causes() []Cause {
	return []Cause{
		CauseMissing, CauseDenied, CauseUnfit, CauseIDsReused, CauseConfiguration, CauseSchema, CauseBusLost, CauseBusUnreadable,
		CauseSuperseded, CauseRefused, CauseDeadLetterLimit, CauseBadValue, CauseCheckpoint, CauseOther,
	}
}

// sentinels are the errors of causes. The first that an error wraps tells its cause.
var sentinels = []struct {
	err   error
	cause Cause
}{
	{ErrIDsReused, CauseIDsReused}, {ErrOtherMeaning, CauseConfiguration}, {ErrSchemaChanged, CauseSchema},
	{catchup.ErrSuperseded, CauseSuperseded}, {sink.ErrFenced, CauseSuperseded},
	{sink.ErrBehind, CauseBusLost}, {sink.ErrUnreadable, CauseBusUnreadable},
	{source.ErrMissing, CauseMissing}, {source.ErrDenied, CauseDenied}, {source.ErrUnfit, CauseUnfit},
	{store.ErrDamaged, CauseCheckpoint},
}

// causeOf returns the cause of a stop.
func causeOf(err error) Cause {
	if _, limit := errors.AsType[*deadLetterLimitError](err); limit {
		return CauseDeadLetterLimit
	}
	if _, refused := errors.AsType[*sink.RejectedError](err); refused {
		return CauseRefused
	}
	if _, bad := errors.AsType[*event.BadValueError](err); bad {
		return CauseBadValue
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.cause
		}
	}
	return CauseOther
}
